// To the end of settings.gradle.kts, beside which the folder lies.
val exported = rootDir.resolve("@@{folder}")

for (name in listOf(@@{modules})) {
    include(":$name")
    project(":$name").projectDir = exported.resolve(name)
}
