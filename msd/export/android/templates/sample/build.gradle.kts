// A whole app, as small as can be: one screen that draws.
plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "@@{package}"
    compileSdk = @@{compile_sdk}

    defaultConfig {
        applicationId = "@@{package}"
        minSdk = @@{min_sdk}
        targetSdk = @@{compile_sdk}
        versionCode = 1
        versionName = "1.0"
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }

    androidResources { noCompress += "tflite" }@@{packs}
}

kotlin { compilerOptions { jvmTarget.set(org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_11) } }

dependencies { implementation(project(":sd-runtime")) }
