package dev.msd.runtime

/** The networks of a model that are open at the moment; lives on the pipeline's thread. */
internal class OpenNetworks(private val manifest: Manifest, private val opener: Opener) {
    private val opened = HashMap<String, Network>()

    /** Returns a network, opened if it is not; throws [NoGpu], after which it can be tried again. */
    fun take(role: String, onProgress: OnProgress): Network = opened[role] ?: run {
        val file = manifest.file(role)
        onProgress.onProgress(Progress.Compiling(file))
        opener.open(file).also { opened[role] = it }
    }

    /** Frees a network, if it is open. */
    fun release(role: String) {
        opened.remove(role)?.close()
    }

    fun releaseAll(): Unit = opened.keys.toList().forEach(::release)
}
