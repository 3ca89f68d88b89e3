/** What an app says of failures and remarks, in the words of its strings.xml. */
package com.example.assets

import android.content.ActivityNotFoundException
import dev.msd.runtime.BadDevice
import dev.msd.runtime.BadFile
import dev.msd.runtime.BadManifest
import dev.msd.runtime.BadRequest
import dev.msd.runtime.NoGpu
import dev.msd.runtime.NoImage
import dev.msd.runtime.NoSpace
import dev.msd.runtime.Remark
import dev.msd.runtime.Why
import java.io.File
import java.io.IOException
import org.json.JSONObject

/** What developers read of each failure. */
private const val DETAIL = "run msd export-android again"

private val FAILURES: Map<String, Throwable> = mapOf(
    "app" to BadManifest(DETAIL),
    "model" to BadFile(DETAIL),
    "unreachable" to BadFile(DETAIL, IOException("no route"), Why.Unreachable),
    "not offered" to BadFile(DETAIL, why = Why.NotOffered),
    "not from play" to BadFile(DETAIL, why = Why.NotFromPlay),
    "space" to NoSpace(DETAIL, 0),
    "space by" to NoSpace(DETAIL, 1_200_001),
    "request" to BadRequest(DETAIL),
    "processor" to BadDevice(DETAIL, Why.UnfitProcessor),
    "android" to BadDevice(DETAIL, Why.OldAndroid(24)),
    "memory" to BadDevice(DETAIL, Why.LittleMemory(0, 0)),
    "memory of" to BadDevice(DETAIL, Why.LittleMemory(2_950_000_000, 6_000_000_000)),
    "gpu" to NoGpu(DETAIL),
    "network" to NoGpu(DETAIL, null, Why.RefusedNetwork),
    "no image" to NoImage(DETAIL),
    "no memory" to OutOfMemoryError(DETAIL),
    "bug" to IllegalStateException(DETAIL),
)

private val REMARKS: Map<String, Remark> = mapOf(
    "empty" to Remark.EmptyPrompt,
    "built in" to Remark.UnusedNegativePrompt(true),
    "unguided" to Remark.UnusedNegativePrompt(false),
    "guidance" to Remark.UnusedGuidance(0.5),
    "idle" to Remark.IdleControl("canny", 20),
    "text" to Remark.ReadAsText(listOf("<lora:a:1>"), DETAIL),
    "words" to Remark.UnknownWords(listOf("a", "b", "c", "d", "e"), 674),
    "cut" to Remark.Cut("the end", 75),
)

/** Returns what is said of each failure, and of photos that cannot be used. */
internal fun reasons(command: JSONObject): JSONObject {
    val context = PhoneContext(File(command.getString("home")))
    val unusable = listOf(IOException("gone"), OutOfMemoryError("much"), ActivityNotFoundException("none"))
    return said(
        *FAILURES.map { (name, problem) -> name to Reasons(context).of(problem) }.toTypedArray(),
        "photos" to unusable.map { Sentences(context).of(Chosen.Unusable(it)) },
    )
}

internal fun remarks(command: JSONObject): JSONObject {
    val context = PhoneContext(File(command.getString("home")))
    return said(*REMARKS.map { (name, remark) -> name to Remarks(context).of(remark) }.toTypedArray())
}
