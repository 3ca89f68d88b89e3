package @@{package}

import android.os.Handler
import android.os.Looper
import android.util.Log
import androidx.test.platform.app.InstrumentationRegistry
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test

/**
 * Generates on this phone what `msd generate` generated on a computer, and compares the images.
 *
 * Times are in the log under the tag ExpectedImageTest: of each step, compilation and file.
 */
public class ExpectedImageTest {
    private val main = Handler(Looper.getMainLooper())

    @Test
    public fun thePhoneGeneratesTheExpectedImage() {
        val expected = ExpectedImage.read()
        val end = generated(expected)
        assertEquals(end.problem?.toString() ?: end.phase.name, Phase.DONE, end.phase)
        val psnr = psnr(checkNotNull(end.image).argb, expected.argb)
        Log.i(TAG, "PSNR to the expected image: $psnr dB")
        val least = expected.leastPsnr
        assertTrue("the image is $psnr dB from the expected one, less than $least", psnr >= least)
    }

    /** Returns the state in which the studio ends, or in which it waits for a person. */
    private fun generated(expected: ExpectedImage): State {
        val ended = LinkedBlockingQueue<State>()
        val app = InstrumentationRegistry.getInstrumentation().targetContext.applicationContext
        val studio = (app as StudioApplication).studio
        val begun = System.nanoTime()
        val watcher = Watcher { state ->
            val milliseconds = (System.nanoTime() - begun) / 1_000_000
            Log.i(TAG, "$milliseconds ms: ${state.phase} ${state.network} ${state.done} of ${state.total}")
            val waits = state.phase == Phase.WAITING_FOR_WIFI || state.phase == Phase.NEEDS_CONSENT
            if (state.request === expected.request && (waits || !state.phase.busy)) ended.offer(state)
        }
        main.post {
            studio.watch(watcher)
            studio.generate(expected.request)
        }
        val end = ended.poll(MINUTES, TimeUnit.MINUTES)
        main.post { studio.unwatch(watcher) }
        return checkNotNull(end) { "there is no image after $MINUTES minutes" }
    }

    private companion object {
        const val TAG = "ExpectedImageTest"
        const val MINUTES = 30L
    }
}
