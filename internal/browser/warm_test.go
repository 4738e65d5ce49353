//go:build browser

package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
)

func TestWarm(t *testing.T) { _ = chromedp.Headless }
