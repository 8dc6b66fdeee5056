package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestDurationsInJSONLogsAreSeconds(t *testing.T) {
	var out strings.Builder
	log, err := newLogger(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.With("waited", time.Minute).WithGroup("round").Info("the cluster answers again", "after", 1500*time.Millisecond, "topics", 3)
	var line struct {
		Waited float64 `json:"waited_seconds"`
		Round  map[string]float64
	}
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
		t.Fatal(err)
	}
	if line.Waited != 60 || line.Round["after_seconds"] != 1.5 || line.Round["topics"] != 3 {
		t.Errorf("logged %s", out.String())
	}
}

func TestLogsShowNoCredentials(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		log, err := newLogger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		wrong := &url.Error{Op: "Get", URL: "https://user:hunter2@s3.example/b", Err: errors.New("refused")}
		log.With("error", fmt.Errorf("store: %w", wrong)).Info("store https://user:hunter2@s3.example", "broker", "user:hunter2@b:9092")
		if strings.Contains(out.String(), "hunter2") || strings.Count(out.String(), "********@") != 3 {
			t.Errorf("logged %s", out.String())
		}
	}
}
