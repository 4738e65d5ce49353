//go:build browser

package serve_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// shotsVariable names a folder for screenshots of every view, light and dark, at 1440 and 390 pixels.
const shotsVariable = "TRAINOPT_SHOTS"

// shot checks that the present page is no wider than a window, and writes screenshots of it if the user asked for them.
func (w *world) shot(name string) {
	w.t.Helper()
	dir := os.Getenv(shotsVariable)
	for _, width := range []int64{1440, 390} {
		for _, scheme := range []string{"light", "dark"} {
			view := []chromedp.EmulateViewportOption{}
			if width < 600 {
				view = append(view, chromedp.EmulateMobile)
			}
			w.do(chromedp.EmulateViewport(width, 900, view...), colorScheme(scheme))
			if over := w.excess(); over != 0 {
				w.t.Errorf("%s at %d pixels is %d pixels too wide", name, width, over)
			}
			if dir == "" {
				continue
			}
			w.do(chromedp.Sleep(600 * time.Millisecond))
			png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				w.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), png, 0o644); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.do(chromedp.ResetViewport(), colorScheme("light"))
}

// colorScheme sets the colour scheme that the user prefers.
func colorScheme(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	})
}

// excess returns by how many pixels the page is wider than its window, once charts that are being redrawn for a new width
// have had time to settle.
func (w *world) excess() (over int) {
	w.t.Helper()
	for range 50 {
		if over = evaluate[int](w, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return over
}
