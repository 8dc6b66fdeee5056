package assembly

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneWarningASegmentAndHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(onceASegment(slog.NewTextHandler(&out, nil))).With("request", "r")
		for i := range 100 {
			log.Warn("damaged log bytes", "position", i, "segment", "a", "error", fmt.Errorf("at %d", i))
			log.Warn("damaged log bytes", "segment", "b")
			log.Warn("index files are missing or damaged", "segment", "a")
			log.Warn("another thing")
			log.Info("opened", "segment", "a")
		}
		time.Sleep(saidFor)
		log.Warn("damaged log bytes", "segment", "a")
		for line, want := range map[string]int{"damaged log bytes": 3, "index files": 1, "another thing": 100, "opened": 100} {
			if got := strings.Count(out.String(), line); got != want {
				t.Errorf("%q is logged %d times, want %d", line, got, want)
			}
		}
	})
}

func TestRememberedWarningsAreBounded(t *testing.T) {
	log := onceASegment(slog.DiscardHandler).(*once)
	for i := range 2*saidMost + 1 {
		log.said.Due(fmt.Sprint(i), time.Now())
	}
	if !log.said.Due("0", time.Now()) {
		t.Errorf("more than %d are remembered", saidMost)
	}
}
