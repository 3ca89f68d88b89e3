package com.google.android.play.core.aipacks;

public class AiPackException extends RuntimeException {
}
