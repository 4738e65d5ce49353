package cli

import (
	"strings"
	"testing"
)

// TestSampleConfiguration checks that the documented sample contains every setting.
func TestSampleConfiguration(t *testing.T) {
	for _, s := range settings {
		if _, name, _ := strings.Cut(s.key, "."); !strings.Contains(sampleConfig, name+":") && s.key != "resource.dataset" && s.key != "monitor.offline_logs" {
			t.Errorf("the sample does not show %s", s.key)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"sla.time_max", "sla.cost_max", "cost.gpu_hour"}
	for word, want := range map[string]string{"sla.time_mx": "sla.time_max", "sla.costmax": "sla.cost_max", "cost.gpuhour": "cost.gpu_hour"} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
