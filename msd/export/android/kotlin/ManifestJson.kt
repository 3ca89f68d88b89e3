package dev.msd.runtime

import org.json.JSONObject

/** Returns the manifest; throws JSONException for what is missing or of the wrong kind, BadManifest for nonsense. */
internal fun JSONObject.manifest() = Manifest(
    model = getString("model"),
    files = objects("files").map { it.modelFile() },
    calls = objects("calls").map { it.call() },
    height = getInt("height"),
    width = getInt("width"),
    latent = ints("latent"),
    prediction = getString("prediction"),
    scheduler = getString("scheduler"),
    schedules = objects("schedules").map { it.schedule() }.associateBy { it.count },
    guidance = getJSONObject("guidance").getDouble("scale"),
    tokenizers = getJSONObject("tokenizers").run { keyNames().associateWith { getJSONObject(it).tokenizer() } },
    promptChunks = getInt("prompt_chunks"),
    preview = if (isNull("preview")) null else getString("preview"),
    image = optJSONObject("image")?.imageFacts(),
    upscaler = optJSONObject("upscaler")?.upscalerFacts(),
    precision = getString("precision"),
    runtime = getString("runtime"),
    minMemory = getLong("min_memory"),
)

private fun JSONObject.modelFile(): ModelFile {
    val name = getString("name")
    if (name.isEmpty() || name == "." || name == ".." || name.any { it == '/' || it == '\\' || it < ' ' }) {
        throw BadManifest("the manifest lists a file ${JSONObject.quote(name)}, which is not a plain file name")
    }
    return ModelFile(
        name = name,
        role = getString("role"),
        title = getString("title"),
        bytes = getLong("bytes"),
        sha256 = getString("sha256"),
        signature = if (isNull("signature")) "" else getString("signature"),
        inputs = objects("inputs").map { it.port() },
        outputs = objects("outputs").map { it.port() },
    )
}

private fun JSONObject.call() = Call(
    component = getString("component"),
    at = getString("when"),
    inputs = objects("inputs").map { input ->
        Input(
            input.getString("name"),
            input.objects("sources").map { it.source() },
            input.getInt("axis"),
            input.optBoolean("summed"),
        )
    },
    outputs = objects("outputs").map {
        Output(
            it.getString("value"),
            it.getString("tensor"),
            it.getString("kind"),
            it.float("factor"),
            it.optBoolean("zero_if_absent"),
        )
    },
)

private fun JSONObject.source() = Source(
    kind = getString("kind"),
    of = optString("of"),
    scaled = optBoolean("scaled"),
    cosineFirst = optBoolean("cosine_first"),
    frequencies = if (has("frequencies")) floats("frequencies") else FloatArray(0),
)

private fun JSONObject.port() = Port(getString("name"), ints("shape"), getString("dtype"), getString("layout"))

private fun JSONObject.schedule(): Schedule {
    val steps = objects("steps").map { it.step() }
    if (steps.isEmpty() || steps.size != getInt("runs")) {
        throw BadManifest("a schedule of ${getInt("runs")} runs has ${steps.size}")
    }
    return Schedule(getInt("count"), float("start"), steps)
}

private fun JSONObject.step() = Step(
    timestep = getDouble("timestep"),
    latent = float("latent"),
    output = float("output"),
    clean = float("clean"),
    cleanLatent = float("clean_latent"),
    cleanOutput = float("clean_output"),
    clip = if (isNull("clip")) null else float("clip"),
    saved = float("saved"),
    history = floats("history"),
    noise = float("noise"),
    save = floats("save"),
    keptLatent = float("kept_latent"),
    keptOutput = float("kept_output"),
    keeps = getInt("keeps"),
    scale = float("scale"),
    signal = float("signal"),
    sigma = float("sigma"),
)

private fun JSONObject.imageFacts() = ImageFacts(
    initial = if (isNull("initial")) null else getString("initial"),
    required = getBoolean("required"),
    inpaints = getBoolean("inpaints"),
    schedules = objects("schedules").map { it.getDouble("strength") to it.getJSONObject("schedule").schedule() }
        .groupBy { (_, schedule) -> schedule.count }.mapValues { (_, all) -> all.toMap() },
)

internal fun JSONObject.upscalerFacts() = UpscalerFacts(
    role = getString("role"),
    input = getString("input"),
    output = getString("output"),
    scale = getInt("scale"),
    tiles = getJSONObject("tiles").run {
        Tiling(getInt("rows"), getInt("columns"), getInt("overlap"), getInt("multiple"))
    },
)

private fun JSONObject.tokenizer() = TokenizerFacts(
    start = getInt("start"),
    end = getInt("end"),
    unknown = getInt("unknown"),
    pad = getInt("pad"),
    length = getInt("length"),
    specials = objects("specials").map { it.specialToken() },
)

private fun JSONObject.specialToken() = SpecialToken(
    content = getString("content"),
    ids = listOf(getInt("id")) + ints("further").asList(),
    normalized = getBoolean("normalized"),
)

private fun JSONObject.float(name: String): Float = getDouble(name).toFloat()

private fun JSONObject.keyNames(): List<String> = names()?.run { List(length(), ::getString) }.orEmpty()

private fun JSONObject.objects(name: String): List<JSONObject> =
    getJSONArray(name).run { List(length(), ::getJSONObject) }

private fun JSONObject.ints(name: String): IntArray = getJSONArray(name).run { IntArray(length(), ::getInt) }

private fun JSONObject.floats(name: String): FloatArray =
    getJSONArray(name).run { FloatArray(length()) { getDouble(it).toFloat() } }
