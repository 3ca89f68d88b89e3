package androidx.activity.result;

public abstract class ActivityResultLauncher<I> {
}
