// The app: one screen that generates images.
plugins { id("com.android.application") }

android {
    namespace = "@@{package}"
    compileSdk = @@{catalog}.versions.compile.sdk.get().toInt()

    defaultConfig {
        applicationId = "@@{package}"
        minSdk = @@{catalog}.versions.min.sdk.get().toInt()
        targetSdk = @@{catalog}.versions.target.sdk.get().toInt()
        versionCode = 1
        versionName = "1.0"@@{runner}
        // 64-bit phones, and emulators on a computer: a model needs more memory than 32 bits address.
        ndk { abiFilters += listOf("arm64-v8a", "x86_64") }
    }

    buildTypes {
        // So that both can be installed at once.
        getByName("debug") { applicationIdSuffix = ".debug" }
        getByName("release") {
            isMinifyEnabled = true
            isShrinkResources = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"), "proguard-rules.pro")
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }

    // A compressed network could not be mapped into memory.
    androidResources { noCompress += "tflite" }

    lint { lintConfig = file("lint.xml") }@@{packs}
}

kotlin { compilerOptions { jvmTarget.set(org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_11) } }

dependencies {
    implementation(project(":sd-runtime"))@@{tests}
}
