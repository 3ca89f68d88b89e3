// To the end of settings.gradle.kts, beside which the folder lies.
val exported = rootDir.resolve("@@{folder}")

dependencyResolutionManagement {
    versionCatalogs { create("sd") { from(files(exported.resolve("gradle/sd.versions.toml"))) } }
}

for (name in listOf(@@{modules})) {
    include(":$name")
    project(":$name").projectDir = exported.resolve(name)
}

// The whole app, under a name that leaves ":app" to yours; you may leave it out.
include(":sd-app")
project(":sd-app").projectDir = exported.resolve("app")
