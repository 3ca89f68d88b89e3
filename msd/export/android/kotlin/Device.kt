package dev.msd.runtime

import android.app.ActivityManager
import android.content.Context
import android.os.Build
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import java.io.File

/**
 * Asks the device whether it can run a model, before anything large is fetched.
 *
 * It compiles a tiny network, an asset of the library, for the GPU: LiteRT counts a GPU as available as soon as its
 * library loads, whatever the driver can do. Call it off the main thread. Throws [BadDevice] and [NoGpu], which
 * say why.
 */
public fun checkDevice(context: Context, manifest: Manifest) {
    requireAbi(Build.SUPPORTED_64_BIT_ABIS.asList())
    requireAndroid(Build.VERSION.SDK_INT)
    requireMemory(memoryOf(context), manifest.minMemory)
    explained("LiteRT cannot be started on this device", Why.UnusableGpu) {
        requireGpu(Gpu.environment.getAvailableAccelerators())
    }
    explained("this device's GPU cannot run even a tiny network", Why.UnusableGpu) {
        val cache = File(context.codeCacheDir, "msd-gpu").apply { mkdirs() }
        val options = gpuOnly(manifest.precision, cache, PROBE)
        CompiledModel.create(context.assets, PROBE, options, Gpu.environment).close()
    }
}

/** The asset that every export has: one convolution. */
internal const val PROBE: String = "sd-models/gpu-probe.tflite"

/** The oldest Android that LiteRT's libraries support. */
private const val OLDEST = 24

private fun memoryOf(context: Context): Long {
    val memory = ActivityManager.MemoryInfo()
    context.getSystemService(ActivityManager::class.java)?.getMemoryInfo(memory)
    return memory.totalMem
}

internal fun requireAbi(abis: List<String>) {
    if ("arm64-v8a" in abis || "x86_64" in abis) return
    val found = abis.joinToString().ifEmpty { "32-bit apps only" }
    throw BadDevice("this device runs $found; the model needs arm64-v8a or x86_64", Why.UnfitProcessor)
}

internal fun requireAndroid(version: Int) {
    if (version >= OLDEST) return
    val sentence = "this device has API level $version of Android; it should be at least $OLDEST"
    throw BadDevice(sentence, Why.OldAndroid(OLDEST))
}

internal fun requireMemory(found: Long, needed: Long) {
    if (found >= needed) return
    val sentence = "this device has ${gigabytes(found)} of memory, and the model needs ${gigabytes(needed)}"
    throw BadDevice(sentence, Why.LittleMemory(found, needed))
}

internal fun requireGpu(accelerators: Set<Accelerator>) {
    if (Accelerator.GPU in accelerators) return
    val found = accelerators.joinToString().ifEmpty { "none" }
    throw NoGpu("LiteRT finds no accelerator for this device's GPU, but $found; the app needs the artifact litert-gpu")
}

private fun gigabytes(bytes: Long): String = "${bytes / 100_000_000 / 10.0} GB"
