/** A phone whose every step a test can hold up, and what it was asked for. */
package com.example.assets

import android.app.Activity
import android.net.Uri
import dev.msd.assets.Arrival
import dev.msd.assets.OnArrival
import dev.msd.runtime.ClipTokenizer
import dev.msd.runtime.GeneratedImage
import dev.msd.runtime.Manifest
import dev.msd.runtime.ModelFile
import dev.msd.runtime.Network
import dev.msd.runtime.OnProgress
import dev.msd.runtime.Opener
import dev.msd.runtime.Pipeline
import dev.msd.runtime.Progress
import dev.msd.runtime.Tensor
import java.io.File
import java.util.Collections
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runInterruptible

/** The model is in [folder]; at the step called [held] the phone waits for [release], or for an interrupt. */
internal class StandInPhone(private val folder: File, private val held: String = "") : Phone {
    val asked: MutableList<String> = Collections.synchronizedList(ArrayList())
    val failures: MutableMap<String, Throwable> = Collections.synchronizedMap(HashMap())
    private val reached = CountDownLatch(1)
    private val released = CountDownLatch(1)

    /** Waits until the phone is held up. */
    fun awaitHeld(): Unit = check(reached.await(60, TimeUnit.SECONDS)) { "no $held, but $asked" }

    fun release(): Unit = released.countDown()

    override val manifest: Manifest = Manifest.open(folder)

    override fun check(): Unit = step("check")

    override suspend fun fetch(onArrival: OnArrival): File = runInterruptible(Dispatchers.IO) {
        onArrival.onArrival(Arrival.WaitingForWifi)
        step("wait")
        onArrival.onArrival(Arrival.NeedsConsent)
        onArrival.onArrival(Arrival.Fetching(5, 15))
        step("fetch")
        onArrival.onArrival(Arrival.Fetching(15, 15))
        folder
    }

    override fun askNotifications(activity: Activity): Unit = step("notifications")

    override fun askConsent(activity: Activity): Unit = step("consent")

    override fun open(folder: File, onProgress: OnProgress): Pipeline {
        onProgress.onProgress(Progress.Checking(1, 2))
        step("open")
        return Pipeline(manifest, ClipTokenizer.openAll(manifest, folder), StandInOpener(::step))
    }

    /** A photo of one colour, the length of its address; a failure may be of one address. */
    override fun read(address: Uri): IntArray {
        step("read")
        failures.remove(address.toString())?.let { throw it }
        return IntArray(manifest.width * manifest.height) { address.toString().length }
    }

    override fun save(image: GeneratedImage, name: String): Uri {
        step("save")
        return Uri.parse("content://gallery/$name")
    }

    private fun step(name: String) {
        asked += name
        if (name == held) {
            reached.countDown()
            released.await()
        }
        failures.remove(name)?.let { throw it }
    }
}

/** Networks whose outputs are halves; a GPU that is busy cannot be interrupted. */
private class StandInOpener(private val step: (String) -> Unit) : Opener {
    override fun open(file: ModelFile): Network {
        uninterrupted("compile ${file.role}")
        return object : Network {
            override fun run(inputs: Map<String, Tensor>): Map<String, FloatArray> {
                uninterrupted("run ${file.role}")
                return file.outputs.associate { it.name to FloatArray(it.size, ::gray) }
            }

            override fun close(): Unit = step("close ${file.role}")
        }
    }

    private fun uninterrupted(name: String) {
        val interrupted = Thread.interrupted()
        step(name)
        if (interrupted) Thread.currentThread().interrupt()
    }
}

/** Returns halves, and now and then a little more: an image of one colour would be refused. */
internal fun gray(i: Int): Float = if (i % 7 == 0) 0.5001f else 0.5f
