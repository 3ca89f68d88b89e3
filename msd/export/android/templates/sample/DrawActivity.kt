package @@{package}

import android.app.Activity
import android.graphics.Bitmap
import android.os.Bundle
import android.widget.Button
import android.widget.EditText
import android.widget.ImageView
import android.widget.ProgressBar
import android.widget.TextView
import dev.msd.delivery.Models
import dev.msd.runtime.Drawing
import dev.msd.runtime.Hooks
import dev.msd.runtime.Picture
import dev.msd.runtime.Pipeline
import dev.msd.runtime.Request
import dev.msd.runtime.RuntimeFailure
import dev.msd.runtime.openPipeline
import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors

/** One screen: a prompt, a picture, and how far it is. */
public class DrawActivity : Activity() {
    private val worker: ExecutorService = Executors.newSingleThreadExecutor()
    private var pipeline: Pipeline? = null
    private var hooks: Hooks? = null

    @Volatile
    private var drawing: Drawing? = null

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.draw)
        findViewById<Button>(R.id.draw).setOnClickListener { draw() }
        findViewById<Button>(R.id.cancel).setOnClickListener { drawing?.cancel() }
    }

    override fun onDestroy() {
        super.onDestroy()
        drawing?.cancel()
        worker.execute {
            hooks?.close()
            pipeline?.close()
        }
        worker.shutdown()
    }

    private fun draw() {
        val prompt = findViewById<EditText>(R.id.prompt).text.toString()
        enable(draw = false, cancel = false)
        worker.execute {
            try {
                val begun = opened().draw(Request(prompt, seed = System.nanoTime() ushr 1)) { done, total ->
                    show(done, total, getString(R.string.step, done, total))
                }
                drawing = begun
                if (isDestroyed) begun.cancel()
                runOnUiThread { enable(draw = false, cancel = true) }
                val picture = begun.await()
                runOnUiThread { show(picture) }
            } catch (problem: RuntimeFailure) {
                show(0, 1, problem.message.orEmpty())
            } finally {
                drawing = null
                runOnUiThread { enable(draw = true, cancel = false) }
            }
        }
    }

    /** Returns the pipeline, opened the first time; lives on the worker. */
    private fun opened(): Pipeline = pipeline ?: run {
        val folder = Models(this@@{address}).folder { done, total ->
            val percent = (100 * done / maxOf(total, 1)).toInt()
            show(percent, 100, getString(R.string.loading, percent))
        }
        show(0, 1, getString(R.string.opening))
        openPipeline(this, folder).also {
            pipeline = it
            hooks = Hooks(this, it)
        }
    }

    private fun show(picture: Picture) {
        val bitmap = Bitmap.createBitmap(picture.argb, picture.width, picture.height, Bitmap.Config.ARGB_8888)
        findViewById<ImageView>(R.id.picture).setImageBitmap(bitmap)
    }

    private fun show(done: Int, total: Int, text: String) = runOnUiThread {
        findViewById<ProgressBar>(R.id.progress).apply {
            max = total
            progress = done
        }
        findViewById<TextView>(R.id.status).text = text
    }

    private fun enable(draw: Boolean, cancel: Boolean) {
        findViewById<Button>(R.id.draw).isEnabled = draw
        findViewById<Button>(R.id.cancel).isEnabled = cancel
    }
}
