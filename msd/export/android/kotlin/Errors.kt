package dev.msd.runtime

/** What can go wrong, and what an app can show of it: each message is a sentence for people. */
public sealed class RuntimeFailure(message: String, cause: Throwable? = null) : Exception(message, cause)

/** The manifest is missing, damaged, of another format than this library's, or incomplete. */
public class BadManifest(message: String, cause: Throwable? = null) : RuntimeFailure(message, cause)

/** A file that the manifest lists is missing, or is not what the manifest says. */
public class BadFile(message: String, cause: Throwable? = null) : RuntimeFailure(message, cause)

/** There is too little space for files to be copied. */
public class NoSpace(message: String) : RuntimeFailure(message)

/** The request cannot be fulfilled with this model: a number of steps without a schedule, for example. */
public class BadRequest(message: String) : RuntimeFailure(message)

/** This device cannot run the model at all: too little memory, or 32-bit apps only. */
public class BadDevice(message: String) : RuntimeFailure(message)

/** A network could not be compiled for the GPU or run on it; nothing has been run on the CPU instead. */
public class NoGpu(message: String, cause: Throwable? = null) : RuntimeFailure(message, cause)

/** The request was cancelled, or the pipeline closed. */
public class Cancelled(message: String) : RuntimeFailure(message)
