package android.app;

import android.content.Context;
import android.content.Intent;
import java.util.Collection;

/** No part of Android: what the system does with an app, and what a test sees of it. */
public final class StandInSystem {
    private StandInSystem() {}

    public static ActivityManager memory(long total, long free) {
        ActivityManager manager = new ActivityManager();
        manager.totalMemory = total;
        manager.freeMemory = free;
        return manager;
    }

    public static NotificationManager notifications() {
        return new NotificationManager();
    }

    public static Collection<Notification> shown(NotificationManager manager) {
        return manager.shown.values();
    }

    public static CharSequence title(Notification notification) {
        return notification.title;
    }

    public static CharSequence text(Notification notification) {
        return notification.text;
    }

    public static int done(Notification notification) {
        return notification.done;
    }

    public static int most(Notification notification) {
        return notification.most;
    }

    public static void attach(Activity activity, Context base, Application application) {
        activity.attach(base, application);
    }

    /** Shows a screen, as Android does: its activity is created, and started. */
    public static void show(Activity activity) {
        activity.onCreate(null);
        activity.onStart();
    }

    /** Takes a screen away, as when the phone turns. */
    public static void remove(Activity activity) {
        activity.onStop();
        activity.onDestroy();
    }

    /** Gives a screen what another one that `asking` had started ended with. */
    public static void answer(Activity activity, Activity asking, int resultCode, Intent data) {
        activity.onActivityResult(asking.asked, resultCode, data);
    }

    /** Returns the permissions that a screen has asked for last. */
    public static String[] wanted(Activity activity) {
        return activity.wanted;
    }

    /** Gives a screen the answer to the permissions that it has asked for: one for all. */
    public static void answer(Activity activity, int result) {
        int[] results = new int[activity.wanted.length];
        java.util.Arrays.fill(results, result);
        activity.onRequestPermissionsResult(activity.asked, activity.wanted, results);
    }

    public static void attach(Application application, Context base) {
        application.attach(base);
    }

    public static void attach(Service service, Context base, Application application) {
        service.attach(base, application);
    }

    /** Returns the notification of a service in the foreground, or null. */
    public static Notification foreground(Service service) {
        return service.foreground;
    }

    public static int foregroundType(Service service) {
        return service.foregroundType;
    }

    public static boolean stopped(Service service) {
        return service.stopped;
    }

    /** Lets a service be in the background only. */
    public static void forbid(Service service) {
        service.forbidden = true;
    }
}
