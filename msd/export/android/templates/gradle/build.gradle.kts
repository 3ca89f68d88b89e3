// Android's plugin brings a Kotlin of its own. This newer one reads what LiteRT's libraries were compiled with.
buildscript {
    repositories {
        google()
        mavenCentral()
    }
    dependencies { classpath(libs.kotlin.gradle.plugin) }
}

plugins {
@@{plugins}
}
