package dev.msd.runtime

import java.io.File
import java.io.IOException

/** An input or output of a network: [dtype] is "float32" or "int32", [layout] "NHWC" for pictures and latents. */
public class Port(
    public val name: String,
    public val shape: IntArray,
    public val dtype: String,
    public val layout: String,
) {
    /** How many elements it has. */
    public val size: Int get() = shape.fold(1, Int::times)
}

/** A file of the app: its [role] is a network such as "unet", or "vocabulary" or "merges"; others are left alone. */
public class ModelFile(
    public val name: String,
    public val role: String,
    public val bytes: Long,
    public val sha256: String,
    public val signature: String?,
    public val inputs: List<Port>,
    public val outputs: List<Port>,
) {
    /** Returns the input [name], or null where the network has none of that name. */
    public fun input(name: String): Port? = inputs.find { it.name == name }
}

/** An input of the U-Net made of one number: its cosines and sines at [frequencies]; [input] has [width] elements. */
public class Sinusoids(
    public val input: String,
    public val width: Int,
    public val cosineFirst: Boolean,
    public val frequencies: FloatArray,
)

/**
 * A token that is looked for before the text is cut into words; after lower-casing if [normalized]. It has more [ids]
 * than one if it is a textual inversion of several vectors.
 */
public class SpecialToken(public val content: String, public val ids: List<Int>, public val normalized: Boolean)

/** Token ids with a meaning, how many tokens a text has, and the special tokens. */
public class TokenizerFacts(
    public val start: Int,
    public val end: Int,
    public val unknown: Int,
    public val pad: Int,
    public val length: Int,
    public val specials: List<SpecialToken>,
)

/**
 * What sd-manifest.json says, as far as drawing needs it; [height] and [width] in pixels, [latent] NHWC. The U-Net
 * takes [promptChunks] outputs of the text encoder, one after the other.
 */
public class Manifest(
    public val model: String,
    public val files: List<ModelFile>,
    public val height: Int,
    public val width: Int,
    public val latent: IntArray,
    public val prediction: String,
    public val scheduler: String,
    public val schedules: Map<Int, Schedule>,
    public val timestep: Sinusoids?,
    public val guidance: Double,
    public val guidanceEmbedding: Sinusoids?,
    public val tokenizer: TokenizerFacts,
    public val promptChunks: Int,
    public val precision: String,
    public val runtime: String,
) {
    /** Returns the file with a role; throws [BadManifest] where the manifest lists none. */
    public fun file(role: String): ModelFile =
        files.find { it.role == role } ?: throw BadManifest("the manifest lists no file with the role $role")

    public companion object {
        /** The newest format that this library reads. */
        public const val FORMAT: Int = 1

        /** What the manifest's file is called. */
        public const val NAME: String = "sd-manifest.json"

        /** What every model has. */
        public val ROLES: List<String> = listOf("text_encoder", "unet", "vae_decoder", "vocabulary", "merges")

        /** Returns the manifest in [folder]; throws [BadManifest] for one that is missing, damaged or newer. */
        public fun open(folder: File): Manifest {
            val file = File(folder, NAME)
            val text = try {
                file.readText()
            } catch (problem: IOException) {
                throw BadManifest("cannot read $file; msd export-android writes one", problem)
            }
            return parse(text)
        }

        /** Returns the manifest that [text] is; throws [BadManifest] for one that is damaged or newer. */
        public fun parse(text: String): Manifest {
            val members = Members(Json.parse(text), "manifest")
            val format = members.int("format")
            if (format > FORMAT) {
                throw BadManifest(
                    "the manifest has format $format and this library reads up to $FORMAT; update the app",
                )
            }
            return read(members).also { manifest ->
                ROLES.forEach(manifest::file)
                if (manifest.schedules.isEmpty()) throw BadManifest("the manifest has no schedule")
            }
        }

        private fun read(from: Members) = Manifest(
            model = from.text("model"),
            files = from.children("files").map(::modelFile),
            height = from.int("height"),
            width = from.int("width"),
            latent = from.ints("latent"),
            prediction = from.text("prediction"),
            scheduler = from.text("scheduler"),
            schedules = from.children("schedules").map(Schedule::read).associateBy { it.steps.size },
            timestep = sinusoids(from, "timestep"),
            guidance = from.child("guidance").number("scale"),
            guidanceEmbedding = sinusoids(from.child("guidance"), "embedding"),
            tokenizer = tokenizer(from.child("tokenizer")),
            promptChunks = if (from.has("prompt_chunks")) from.int("prompt_chunks") else 1,
            precision = from.text("precision"),
            runtime = from.text("runtime"),
        )

        private fun modelFile(from: Members): ModelFile {
            val name = from.text("name")
            if (name.isEmpty() || name == "." || name == ".." || '/' in name || '\\' in name || '\u0000' in name) {
                throw BadManifest("the manifest lists a file ${quoted(name)}, which is not a plain file name")
            }
            return ModelFile(
                name = name,
                role = from.text("role"),
                bytes = from.whole("bytes"),
                sha256 = from.text("sha256"),
                signature = if (from.has("signature")) from.text("signature") else null,
                inputs = from.children("inputs").map(::port),
                outputs = from.children("outputs").map(::port),
            )
        }

        private fun port(from: Members) =
            Port(from.text("name"), from.ints("shape"), from.text("dtype"), from.text("layout"))

        private fun sinusoids(from: Members, name: String): Sinusoids? = if (!from.has(name)) null else {
            from.child(name).run { Sinusoids(text("input"), int("width"), flag("cosine_first"), floats("frequencies")) }
        }

        private fun tokenizer(from: Members) = TokenizerFacts(
            start = from.int("start"),
            end = from.int("end"),
            unknown = from.int("unknown"),
            pad = from.int("pad"),
            length = from.int("length"),
            specials = from.children("specials").map {
                val further = if (it.has("further")) it.ints("further").toList() else emptyList()
                SpecialToken(it.text("content"), listOf(it.int("id")) + further, it.flag("normalized"))
            },
        )
    }
}
