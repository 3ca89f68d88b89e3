package @@{package}

import android.graphics.Bitmap
import android.graphics.BitmapFactory
import dev.msd.runtime.Request
import org.json.JSONObject

/** The image that `msd generate` made of [request]; the phone's should be [leastPsnr] dB from it or more. */
internal class ExpectedImage(val request: Request, val leastPsnr: Double, val argb: IntArray) {
    companion object {
        /** Returns the image that lies in the test's own APK as resources of Java. */
        fun read(): ExpectedImage {
            val facts = JSONObject(resource("expected.json").decodeToString())
            val request = Request(
                prompt = facts.getString("prompt"),
                negativePrompt = facts.getString("negative_prompt"),
                seed = facts.getLong("seed"),
                steps = facts.getInt("steps"),
                guidance = facts.getDouble("guidance"),
            )
            val png = resource("expected.png")
            val bitmap = checkNotNull(BitmapFactory.decodeByteArray(png, 0, png.size)) { "expected.png is no PNG" }
            return ExpectedImage(request, facts.getDouble("least_psnr"), pixels(bitmap))
        }

        private fun resource(name: String): ByteArray {
            val stream = checkNotNull(ExpectedImage::class.java.getResourceAsStream("/$name")) { "$name is missing" }
            return stream.use { it.readBytes() }
        }

        private fun pixels(bitmap: Bitmap): IntArray {
            val argb = IntArray(bitmap.width * bitmap.height)
            bitmap.getPixels(argb, 0, bitmap.width, 0, 0, bitmap.width, bitmap.height)
            return argb
        }
    }
}
