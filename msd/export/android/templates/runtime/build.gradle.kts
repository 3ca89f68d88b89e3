// The library: Kotlin sources that fetch the model and generate images with it.
plugins { id("com.android.library") }

android {
    namespace = "dev.msd.runtime"
    compileSdk = @@{catalog}.versions.compile.sdk.get().toInt()

    defaultConfig {
        minSdk = @@{catalog}.versions.min.sdk.get().toInt()
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
    // Flow and suspending functions are part of what the library offers.
    api(@@{catalog}.coroutines)
    implementation(@@{catalog}.litert)
    implementation(@@{catalog}.litert.gpu)@@{dependency}
}
