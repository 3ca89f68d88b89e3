/** Answers each line of input, a JSON command, with a line: `{"ok": …}` or `{"error": …, "message": …}`. */
package dev.msd.tried

import dev.msd.runtime.RuntimeFailure
import org.json.JSONArray
import org.json.JSONObject
import java.io.File
import java.util.concurrent.ConcurrentHashMap

private val asked = ConcurrentHashMap<String, Asked>()

private val COMMANDS: Map<String, (JSONObject) -> Any?> = mapOf(
    "ask" to { asked[it.getString("id")] = Asked(model(it), it.optBoolean("suspend"), it.optBoolean("interrupted")) },
    "cancel" to { asked.getValue(it.getString("id")).cancel() },
    "result" to { asked.getValue(it.getString("id")).result() },
    "arrivals" to { JSONArray(asked.getValue(it.getString("id")).arrivals.map(::JSONArray)) },
    "name" to { model(it).name() },
    "play" to ::play,
    "tell" to ::tell,
    "store" to { storeSays() },
    "service" to ::service,
)

public fun main() {
    for (line in generateSequence(::readlnOrNull)) println(answer(JSONObject(line)))
}

private fun answer(command: JSONObject): JSONObject = try {
    val result = COMMANDS.getValue(command.getString("do"))(command)
    JSONObject().put("ok", if (result == null || result is Unit || result is Asked) JSONObject.NULL else result)
} catch (problem: RuntimeFailure) {
    JSONObject().put("error", problem.javaClass.simpleName).put("message", problem.message)
} catch (problem: Throwable) {
    JSONObject().put("error", "unexpected").put("message", problem.stackTraceToString())
}

internal fun context(command: JSONObject) =
    TriedContext(File(command.getString("home")), command.optBoolean("debuggable"))

internal fun model(command: JSONObject): Model = when (command.getString("kind")) {
    "assetpack" -> assetPacks(context(command))
    "aipack" -> aiPacks(context(command))
    "download" -> download(command)
    else -> assets(context(command))
}

