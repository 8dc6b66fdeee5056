package rangeio

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/api/googleapi"
)

// gcsReasons are the reasons whose meaning does not follow from the HTTP status. Source: the JSON API's list of status
// and error codes.
var gcsReasons = map[string]Kind{
	"rateLimitExceeded":      Throttled, // 403 or 429
	"userRateLimitExceeded":  Throttled,
	"quotaExceeded":          Throttled,
	"dailyLimitExceeded":     Throttled,
	"requestTooFast":         Throttled,
	"authError":              BadCredentials,
	"keyInvalid":             BadCredentials,
	"conditionNotMet":        Changed,
	"uploadBrokenConnection": Unavailable, // a 4xx: our own bytes did not arrive
}

// gcsFailure classifies an error of the library: the caller's own end first, then the store's reason, then the HTTP
// status, then the network.
func gcsFailure(ctx context.Context, err error) (Kind, error) {
	if ctx.Err() != nil {
		return Canceled, ctx.Err()
	}
	if ce, ok := errors.AsType[credentialsError](err); ok {
		return gcsCredentialsKind(ce), ce
	}
	if ge, ok := errors.AsType[*googleapi.Error](err); ok {
		r := gcsRefusal(ge)
		return gcsRefusalKind(ge, r), r
	}
	err = withoutURL(err)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, shape := errors.AsType[*json.UnmarshalTypeError](err)
	if syntax || shape || malformed(err) {
		return BadAnswer, err
	}
	return Unavailable, err
}

// gcsRefusal takes the store's own words out of an answer. Those to a GET of an object's bytes are plain text, or JSON
// that the library did not read.
func gcsRefusal(ge *googleapi.Error) refusal {
	r := refusal{status: ge.Code, message: ge.Message}
	if len(ge.Errors) > 0 {
		r.code = ge.Errors[0].Reason
	}
	if r.message != "" || r.code != "" {
		return r
	}
	var page struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(ge.Body), &page) == nil && page.Error.Message != "" {
		r.message = page.Error.Message
		if len(page.Error.Errors) > 0 {
			r.code = page.Error.Errors[0].Reason
		}
		return r
	}
	r.message = ge.Body
	return r
}

func gcsRefusalKind(ge *googleapi.Error, r refusal) Kind {
	if kind, ok := gcsReasons[r.code]; ok {
		return kind
	}
	switch r.status {
	case http.StatusNotFound:
		if strings.HasPrefix(ge.Header.Get("Content-Type"), "text/html") && !strings.Contains(r.message, "Not Found") {
			return BadAnswer // some web page: this is not the store, and it says nothing about the object
		}
		if gcsNamesBucket(r.message) {
			return NoBucket
		}
	case http.StatusGone:
		return Unavailable // the upload's session has ended; a new one may succeed
	}
	return statusKind(r.status)
}

// gcsNamesBucket: the store says itself that it is the bucket which is missing.
func gcsNamesBucket(message string) bool {
	return strings.Contains(message, "bucket does not exist")
}

// gcsNamesObject: the store says itself that it is the object which is missing.
func gcsNamesObject(message string) bool {
	return strings.HasPrefix(strings.TrimSpace(message), "No such object")
}
