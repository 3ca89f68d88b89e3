/** Stubs of Play services' tasks: one that is done. */
package com.google.android.gms.tasks

import java.util.concurrent.ExecutionException

class Task<T>(val result: () -> T)

object Tasks {
    @JvmStatic
    fun <T> await(task: Task<T>): T = try {
        task.result()
    } catch (problem: IllegalStateException) {
        throw ExecutionException(problem)
    }
}
