package dev.msd.tried

import com.google.android.gms.tasks.Task
import com.google.android.gms.tasks.Tasks
import com.google.android.play.core.assetpacks.StandInStore
import org.json.JSONArray
import org.json.JSONObject
import java.io.File
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.CopyOnWriteArrayList

/** How many bytes each pack seems to have. */
internal const val BYTES = 15L

/** What is said of a pack. */
internal class Said(val status: Int, val bytes: Long = 0, val error: Int = 0)

/**
 * What a store knows, whatever it calls its packs: those of an export in [out], none of which is delivered at first.
 *
 * `failures` of the command are the codes that its first answers fail with, with commas between; 1 stands for another exception.
 */
internal class Store(private val out: File, command: JSONObject) {
    val patience: Long = command.optLong("patience", 60_000)
    val asked = CopyOnWriteArrayList<String>()
    var tell: (String, Said) -> Unit = { _, _ -> }
    val states = ConcurrentHashMap<String, Said>()
    private val failures = ArrayDeque(command.optString("failures").split(",").mapNotNull(String::toIntOrNull))

    fun folder(pack: String): File? {
        if (states[pack]?.status != COMPLETED) return null
        return File(out, "${pack.replace('_', '-')}/src/main/assets")
    }

    fun <T> answer(what: String, packs: List<String>, made: (Map<String, Said>) -> T): Task<T> {
        // The test goes on when the store was asked, so the answer is made first.
        val answer = made(packs.associateWith { states.getOrPut(it) { Said(PENDING) } })
        val code = failures.removeFirstOrNull()
        asked += what
        return if (code == null) Tasks.forResult(answer) else Tasks.forException(failure(code))
    }

    private fun failure(code: Int): Exception =
        if (code == 1) IllegalStateException("there is no store") else StandInStore.exception(code)

    companion object {
        const val PENDING = 1
        const val COMPLETED = 4
    }
}

@Volatile
internal var store = Store(File("nowhere"), JSONObject())

/** The store says something of a pack, to its listeners too unless it keeps `quiet`. */
internal fun tell(command: JSONObject) {
    val said = Said(command.getInt("status"), command.optLong("bytes"), command.optInt("error"))
    store.states[command.getString("pack")] = said
    if (!command.optBoolean("quiet")) store.tell(command.getString("pack"), said)
}

internal fun storeSays(): JSONArray = JSONArray(store.asked.toList())
