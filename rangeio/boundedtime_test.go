package rangeio

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A body that drips is cut off when its time is over; an object's bytes are not (the stall watch looks after those).
func TestDrippingAnswers(t *testing.T) {
	for _, c := range []struct {
		status  int
		payload bool
		end     time.Duration
	}{{500, true, errorPageTime}, {500, false, errorPageTime}, {200, false, answerTime}, {206, true, time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			body, drip := io.Pipe()
			var dripping sync.WaitGroup
			defer dripping.Wait()
			dripping.Go(func() {
				for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(time.Second) {
					if _, err := drip.Write([]byte{' '}); err != nil {
						return
					}
				}
				drip.Close()
			})
			client := httpClient(roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: c.status, Body: body}, nil
			}))
			ctx := t.Context()
			if c.payload {
				ctx = withPayload(ctx)
			}
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://store/", nil)
			began := time.Now()
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if took := time.Since(began); took < c.end-time.Second || took > c.end+time.Second {
				t.Errorf("status %d, payload %v: ended after %v, want %v", c.status, c.payload, took, c.end)
			}
		})
	}
}
