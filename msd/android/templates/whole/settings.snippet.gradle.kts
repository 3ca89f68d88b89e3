// To the end of settings.gradle.kts. The folder's path is as seen from there.
val exported = file("@@{folder}")

for (name in listOf(@@{modules})) {
    include(":$name")
    project(":$name").projectDir = exported.resolve(name)
}
