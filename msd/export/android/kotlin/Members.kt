package dev.msd.runtime

/** One parsed JSON object whose members are read by name and kind; [where] is what it is called in messages. */
internal class Members(private val value: Any?, private val where: String) {
    private val members: Map<*, *> = value as? Map<*, *> ?: throw BadManifest("$where is not an object")

    val names: Set<String> get() = members.keys.mapTo(LinkedHashSet()) { it as String }

    fun text(name: String): String = get(name)

    fun number(name: String): Double = get(name)

    fun flag(name: String): Boolean = get(name)

    fun whole(name: String): Long = whole(get<Double>(name), name)

    fun int(name: String): Int = whole(name).toInt()

    fun has(name: String): Boolean = members[name] != null

    fun child(name: String): Members = Members(require(name), "$where.$name")

    fun ints(name: String): IntArray = list(name).map { whole(cast<Double>(it, name), name).toInt() }.toIntArray()

    fun floats(name: String): FloatArray = list(name).map { cast<Double>(it, name).toFloat() }.toFloatArray()

    fun children(name: String): List<Members> = list(name).mapIndexed { i, item -> Members(item, "$where.$name[$i]") }

    private fun list(name: String): List<*> = get(name)

    private inline fun <reified T> get(name: String): T = cast(require(name), name)

    private inline fun <reified T> cast(value: Any?, name: String): T =
        value as? T ?: throw BadManifest("$where.$name is $value, which is of the wrong kind")

    private fun require(name: String): Any =
        members[name] ?: throw BadManifest("$where lacks ${quoted(name)}")

    private fun whole(value: Double, name: String): Long {
        val rounded = value.toLong()
        if (rounded.toDouble() != value) throw BadManifest("$where.$name is $value, which is no whole number")
        return rounded
    }
}
