/** The whole app on a JVM: its screen, its studio, its model among its assets, on LiteRT's stand-in. */
package com.example.assets

import android.app.ActivityManager
import android.app.Instrumentation
import android.app.StandInSystem
import android.content.ContentResolver
import android.content.ContentValues
import android.content.Context
import android.content.ContextWrapper
import android.content.Intent
import android.content.StandInResolver
import android.content.pm.ApplicationInfo
import android.content.pm.PackageManager
import android.content.res.Resources
import android.content.res.StandInResources
import android.net.Uri
import android.os.Bundle
import android.os.PowerManager
import android.os.StandInPower
import android.view.StandInLayouts
import android.view.View
import android.widget.EditText
import android.widget.ImageView
import android.widget.StandInViews
import android.widget.TextView
import androidx.test.platform.app.InstrumentationRegistry
import com.google.ai.edge.litert.StandInDevice
import com.google.ai.edge.litert.StandInPort
import com.google.ai.edge.litert.TensorType
import dev.msd.runtime.Manifest
import dev.msd.runtime.ModelFile
import dev.msd.runtime.StandInContext
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.FileNotFoundException
import java.io.InputStream
import java.io.OutputStream
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import org.json.JSONObject
import org.junit.runner.JUnitCore

/** A gallery that keeps what it is given. */
internal class StandInGallery : StandInResolver() {
    val written = ByteArrayOutputStream()
    val pending = ArrayList<Any?>()

    /** Where the last image was to lie, if the app said so. */
    var path: String? = null

    override fun stored(url: Uri, values: ContentValues): Uri {
        pending += values.get("is_pending")
        path = values.get("_data") as String?
        return Uri.parse("$url/1")
    }

    /** The files that can be read, by their addresses. */
    val photos = HashMap<String, File>()

    override fun read(uri: Uri): InputStream =
        photos[uri.toString()]?.inputStream() ?: throw FileNotFoundException("there is no $uri")

    override fun opened(uri: Uri): OutputStream = written

    override fun changed(uri: Uri, values: ContentValues): Int {
        pending += values.get("is_pending")
        return 1
    }

    override fun removed(uri: Uri): Int = 0
}

internal class PhoneContext(home: File) : StandInContext(home) {
    val gallery = StandInGallery()
    val started = ArrayList<Intent>()

    /** The permissions that the user has given. */
    val permitted = HashSet<String>()

    override fun checkSelfPermission(permission: String): Int =
        if (permission in permitted) PackageManager.PERMISSION_GRANTED else PackageManager.PERMISSION_DENIED

    /** What asking for another screen throws, if anything. */
    var refused: RuntimeException? = null

    init {
        services[ActivityManager::class.java] = StandInSystem.memory(8_000_000_000, 4_000_000_000)
        services[PowerManager::class.java] = StandInPower.manager()
    }

    override fun getApplicationInfo(): ApplicationInfo = ApplicationInfo()

    override fun getResources(): Resources = StandInResources(STRINGS)

    override fun getContentResolver(): ContentResolver = gallery

    override fun startActivity(intent: Intent) {
        refused?.let { throw it }
        started += intent
    }
}

/** The process: one application, on a GPU that runs the model at [home], and that may be held up in the U-Net. */
internal class Process(home: File) {
    val context = PhoneContext(home)
    val application = StudioApplication()
    private val running = CountDownLatch(1)
    private val released = CountDownLatch(1)

    init {
        val manifest = Manifest.open(File(home, "assets/sd-models"))
        val files = manifest.files.associateBy(ModelFile::name)
        StandInDevice.ports = { name, signature -> files[name]?.takeIf { it.signature == signature }?.let(::ports) }
        StandInDevice.run = { name, _ -> halves(files.getValue(name)) }
        for ((layout, made) in LAYOUTS) StandInLayouts.put(layout) { made(it) }
        StandInSystem.attach(application, context)
        onMain(application::onCreate)
    }

    fun awaitUnet(): Unit = check(running.await(60, TimeUnit.SECONDS)) { "the U-Net does not run" }

    fun release(): Unit = released.countDown()

    private fun halves(file: ModelFile): Map<String, Any> {
        if (file.role == "unet") {
            running.countDown()
            released.await()
        }
        return file.outputs.associate { it.name to FloatArray(it.size, ::gray) }
    }

    fun screen(): StudioActivity = onMain {
        StudioActivity().also {
            StandInSystem.attach(it, context, application)
            StandInSystem.show(it)
        }
    }
}

private fun ports(file: ModelFile): Map<String, StandInPort> = (file.inputs + file.outputs).associate { port ->
    val type = if (port.dtype == "int32") TensorType.ElementType.INT else TensorType.ElementType.FLOAT
    port.name to StandInPort(TensorType(type, TensorType.Layout(port.shape.toList())))
}

internal fun StudioActivity.type(id: Int, text: String) = findViewById<EditText>(id).setText(text)

internal fun StudioActivity.click(id: Int): Boolean = findViewById<View>(id).performClick()

private fun StudioActivity.status(): String = findViewById<TextView>(R.id.status).text.toString()

/** Returns which of the screen's buttons can be pressed. */
private fun StudioActivity.pressable(): List<String> = BUTTONS.filterValues { id ->
    findViewById<View>(id).let { it.isEnabled && it.visibility == View.VISIBLE }
}.keys.toList()

private val BUTTONS = mapOf(
    "generate" to R.id.generate,
    "cancel" to R.id.cancel,
    "try again" to R.id.try_again,
    "consent" to R.id.consent,
    "save" to R.id.save,
    "share" to R.id.share,
)

/** Generates an image while the phone turns; saves and shares it. */
internal fun screen(command: JSONObject): JSONObject {
    val process = Process(File(command.getString("home")))
    val seen = Seen()
    val portrait = process.screen()
    val atFirst = onMain {
        process.application.studio.watch(seen)
        portrait.pressable()
    }
    onMain {
        portrait.type(R.id.prompt, "a red circle")
        portrait.type(R.id.seed, "99999999999999999999")
        portrait.click(R.id.generate)
    }
    val refused = onMain { portrait.findViewById<EditText>(R.id.seed).error.toString() }
    onMain {
        portrait.type(R.id.seed, "7")
        portrait.type(R.id.guidance, "1000.5")
        portrait.click(R.id.generate)
    }
    val unguided = onMain { portrait.findViewById<EditText>(R.id.guidance).error.toString() }
    onMain {
        portrait.type(R.id.guidance, "3.5")
        portrait.click(R.id.generate)
    }
    process.awaitUnet()
    onMain { StandInSystem.remove(portrait) }
    val landscape = process.screen()
    val turned = onMain { landscape.pressable() + landscape.status() + "${landscape.isAwake()}" }
    process.release()
    seen.until(Phase.DONE)
    val done = onMain { landscape.pressable() + landscape.status() + "${landscape.isAwake()}" }
    onMain { landscape.click(R.id.save) }
    seen.until(Phase.DONE)
    val saved = onMain {
        landscape.click(R.id.share)
        landscape.pressable() + landscape.status()
    }
    return said(
        "at first" to atFirst,
        "refused" to refused,
        "unguided" to unguided,
        "guidance" to seen.states.last().request?.guidance,
        "turned" to turned,
        "done" to done,
        "saved" to saved,
        "left" to onMain { portrait.status() },
        "described" to onMain { landscape.findViewById<ImageView>(R.id.image).contentDescription.toString() },
        "shown" to onMain { StandInViews.bitmap(landscape.findViewById(R.id.image)).width },
        "gallery" to process.context.gallery.run { listOf(written.toString()) + pending },
        "shared" to process.context.started.map { it.action },
        "environments" to StandInDevice.environments.get(),
        "phases" to seen.phases(),
    )
}

/** Saves an image on a phone that asks for a permission, which the user refuses first; and once more. */
internal fun permit(command: JSONObject): JSONObject {
    val process = Process(File(command.getString("home")))
    process.release()
    val seen = Seen()
    onMain { process.application.studio.watch(seen) }
    val screen = process.screen()
    onMain {
        screen.type(R.id.prompt, "a red circle")
        screen.type(R.id.seed, "7")
        screen.click(R.id.generate)
    }
    seen.until(Phase.DONE)
    onMain { screen.click(R.id.save) }
    val asked = onMain { StandInSystem.wanted(screen).toList() }
    val refused = answered(screen, seen, PackageManager.PERMISSION_DENIED)
    onMain { screen.click(R.id.save) }
    process.context.permitted += asked
    val granted = answered(screen, seen, PackageManager.PERMISSION_GRANTED)
    onMain { screen.click(R.id.share) }
    return said(
        "asked" to asked,
        "refused" to refused,
        "granted" to granted,
        "path" to process.context.gallery.path,
        "gallery" to process.context.gallery.run { listOf(written.toString()) + pending },
        "shared" to process.context.started.map { it.action },
    )
}

private fun answered(screen: StudioActivity, seen: Seen, result: Int): List<String> {
    onMain { StandInSystem.answer(screen, result) }
    seen.until(Phase.DONE)
    return onMain { screen.pressable() + screen.status() }
}

private fun StudioActivity.isAwake() = findViewById<View>(R.id.screen).keepScreenOn

/** Runs the instrumented test as JUnit does. */
internal fun instrumented(command: JSONObject): JSONObject {
    val process = Process(File(command.getString("home")))
    process.release()
    val target = object : ContextWrapper(null) {
        override fun getApplicationContext(): Context = process.application
    }
    val instrumentation = object : Instrumentation() {
        override fun getTargetContext(): Context = target
    }
    InstrumentationRegistry.registerInstance(instrumentation, Bundle())
    val result = JUnitCore.runClasses(ExpectedImageTest::class.java)
    return said("run" to result.runCount, "failures" to result.failures.map { it.message })
}
