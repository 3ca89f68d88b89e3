package dev.msd.runtime

import org.json.JSONException
import org.json.JSONObject
import java.io.File
import java.io.IOException

/** An input or output of a network: [dtype] is "float32" or "int32", [layout] "NHWC" for images and latents. */
public class Port(
    public val name: String,
    public val shape: IntArray,
    public val dtype: String,
    public val layout: String,
) {
    /** How many elements it has. */
    public val size: Int get() = shape.fold(1, Int::times)
}

/**
 * A file of the app: its [role] is that of a network, or "vocabulary" or "merges"; others are left alone. [title] is
 * the role in people's words.
 */
public class ModelFile(
    public val name: String,
    public val role: String,
    public val title: String,
    public val bytes: Long,
    public val sha256: String,
    public val signature: String,
    public val inputs: List<Port>,
    public val outputs: List<Port>,
) {
    /** Returns the input [name], or null where the network has none of that name. */
    public fun input(name: String): Port? = inputs.find { it.name == name }
}

/**
 * A token that is matched before the text is split into words; after lower-casing if [normalized]. It has more [ids]
 * than one if it is a textual inversion of several vectors.
 */
public class SpecialToken(public val content: String, public val ids: List<Int>, public val normalized: Boolean)

/** The ids of special tokens, and how many tokens a text has. */
public class TokenizerFacts(
    public val start: Int,
    public val end: Int,
    public val unknown: Int,
    public val pad: Int,
    public val length: Int,
    public val specials: List<SpecialToken>,
)

/**
 * The content of sd-manifest.json, as far as generating needs it.
 *
 * [calls] say what each network is given, when it runs, and what it computes. [height] and [width] are in pixels,
 * [latent] is NHWC, [minMemory] in bytes. [tokenizers] are by the names that calls have for them; [promptChunks]
 * outputs of a text encoder follow each other. [preview] is the role of the network that decodes previews, if any;
 * [image] says how the model reads an image, if it does, and [upscaler] how it enlarges one.
 */
public class Manifest(
    public val model: String,
    public val files: List<ModelFile>,
    public val calls: List<Call>,
    public val height: Int,
    public val width: Int,
    public val latent: IntArray,
    public val prediction: String,
    public val scheduler: String,
    public val schedules: Map<Int, Schedule>,
    public val guidance: Double,
    public val tokenizers: Map<String, TokenizerFacts>,
    public val promptChunks: Int,
    public val preview: String?,
    public val image: ImageFacts?,
    public val upscaler: UpscalerFacts?,
    public val precision: String,
    public val runtime: String,
    public val minMemory: Long,
) {
    internal val wiring = Wiring(calls)

    /** Returns the file with a role; throws [BadManifest] where the manifest lists none. */
    public fun file(role: String): ModelFile =
        files.find { it.role == role } ?: throw BadManifest("the manifest lists no file with the role $role")

    public companion object {
        /** The format that this library reads. */
        public const val FORMAT: Int = 4

        /** The name of the manifest's file. */
        public const val NAME: String = "sd-manifest.json"

        /** The roles that every model has beside its networks. */
        public val ROLES: List<String> = listOf("vocabulary", "merges")

        /** Returns the manifest in [folder]; throws [BadManifest] for one that is missing or cannot be read. */
        public fun open(folder: File): Manifest {
            val file = File(folder, NAME)
            val text = try {
                file.readText()
            } catch (problem: IOException) {
                throw BadManifest("cannot read $file; msd export-android writes one", problem)
            }
            return parse(text)
        }

        /** Returns the manifest that [text] is; throws [BadManifest] for one that is damaged or of another format. */
        public fun parse(text: String): Manifest = try {
            val json = JSONObject(text)
            val format = json.getInt("format")
            if (format != FORMAT) {
                val remedy = if (format > FORMAT) "update the app" else "export the model again"
                throw BadManifest("the manifest has format $format and this library reads $FORMAT; $remedy")
            }
            json.manifest().also(::require)
        } catch (problem: JSONException) {
            throw BadManifest("the manifest is damaged: ${problem.message}", problem)
        }

        private fun require(manifest: Manifest) {
            ROLES.forEach(manifest::file)
            manifest.requireCalls()
            manifest.upscaler?.let(manifest::requireTiles)
            if (manifest.schedules.isEmpty()) throw BadManifest("the manifest has no schedule")
        }
    }
}
