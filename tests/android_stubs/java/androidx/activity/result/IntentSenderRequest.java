package androidx.activity.result;

public final class IntentSenderRequest {
}
