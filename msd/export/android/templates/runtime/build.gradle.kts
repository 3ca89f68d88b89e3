// The library: Kotlin sources that draw, and what they need.
plugins {
    id("com.android.library")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "dev.msd.runtime"
    compileSdk = @@{compile_sdk}

    defaultConfig {
        minSdk = @@{min_sdk}
        consumerProguardFiles("consumer-rules.pro")
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }

    // A compressed network could not be mapped into memory.
    androidResources { noCompress += "tflite" }
}

kotlin {
    explicitApi()
    compilerOptions { jvmTarget.set(org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_11) }
}

dependencies {
    implementation("com.google.ai.edge.litert:litert:@@{litert}")@@{dependency}
}
