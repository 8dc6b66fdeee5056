package rangeio

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// s3Codes are the error codes whose meaning does not follow from the HTTP status. Sources: the S3 API reference's list
// of error codes, and those that Ceph, MinIO and others add.
var s3Codes = map[string]Kind{
	"NoSuchKey":          NotFound,
	"NoSuchVersion":      NotFound,
	"NoSuchBucket":       NoBucket,
	"PermanentRedirect":  NoBucket, // the bucket lies in another region
	"TemporaryRedirect":  NoBucket,
	"AccessDenied":       Forbidden,
	"AllAccessDisabled":  Forbidden,
	"InvalidObjectState": Archived, // a 403: S3 Glacier, or an archive tier of Intelligent-Tiering
	"PreconditionFailed": Changed,
	"InvalidRange":       BadRange,

	"InvalidAccessKeyId":                 BadCredentials,
	"SignatureDoesNotMatch":              BadCredentials,
	"ExpiredToken":                       BadCredentials, // a 400
	"ExpiredTokenException":              BadCredentials,
	"RequestExpired":                     BadCredentials,
	"TokenRefreshRequired":               BadCredentials,
	"InvalidToken":                       BadCredentials,
	"InvalidClientTokenId":               BadCredentials,
	"UnrecognizedClientException":        BadCredentials,
	"XAdminUserNotFound":                 BadCredentials, // a 404: Versity's gateway does not know the access key
	"AuthorizationHeaderMalformed":       NoBucket,       // a 400: signed for another region than the bucket's
	"IllegalLocationConstraintException": NoBucket,

	"BadDigest":                 BadAnswer,
	"XAmzContentSHA256Mismatch": BadAnswer,
	"InvalidDigest":             BadAnswer,

	"SlowDown":             Throttled,
	"TooManyRequests":      Throttled,
	"RequestLimitExceeded": Throttled,
	"Throttling":           Throttled,
	"ThrottlingException":  Throttled,
	"ServiceUnavailable":   Throttled,

	"InternalError":              Unavailable,
	"RequestTimeout":             Unavailable, // a 400: the store waited too long for our bytes
	"RequestTimeTooSkewed":       Unavailable, // a 403: the SDK has learnt the difference, the next request is right
	"OperationAborted":           Unavailable,
	"ConditionalRequestConflict": Unavailable,
	"NoSuchUpload":               Unavailable, // the upload was aborted; a new one may succeed

	"QuotaExceeded":          Full,
	"StorageFull":            Full,
	"XMinioStorageFull":      Full,
	"XMinioAdminBucketQuota": Full,

	"KeyTooLongError":         BadKey,
	"InvalidURI":              BadKey,
	"XMinioInvalidObjectName": BadKey,
}

// s3Kind classifies an error of an SDK call: the caller's own end first, then the store's code, then the HTTP status,
// then the network.
func s3Kind(ctx context.Context, err error) Kind {
	if ctx.Err() != nil {
		return Canceled
	}
	if ce, ok := errors.AsType[credentialsError](err); ok {
		return credentialsKind(ce)
	}
	code := s3Code(err)
	if kind, ok := s3Codes[code]; ok {
		return kind
	}
	switch status := httpStatus(err); {
	case status == http.StatusNotFound && code == "":
		return BadAnswer // some web page: this is not the S3 endpoint, and it says nothing about the object
	case status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect:
		return NoBucket
	case status == http.StatusNotModified:
		return BadAnswer // no request has If-None-Match
	case status >= 200:
		return statusKind(status) // the answer to a HEAD, too, which has no body to carry a code
	}
	if malformed(err) {
		return BadAnswer
	}
	return Unavailable
}

// credentialsKind tells a token service that is down, which passes, from credentials that are not there.
func credentialsKind(err credentialsError) Kind {
	if status := httpStatus(err); status >= 500 || status == http.StatusTooManyRequests {
		return Unavailable
	}
	if ne, ok := errors.AsType[net.Error](err.err); ok && ne.Timeout() {
		return Unavailable
	}
	return BadCredentials
}

func s3Code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func httpStatus(err error) int {
	if re, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return re.HTTPStatusCode()
	}
	return 0
}

// isExpiredToken: the credentials were good and have run out. STS and S3 use several names.
func isExpiredToken(err error) bool {
	switch s3Code(err) {
	case "ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired":
		return true
	}
	return false
}

// malformed tells an answer that is no HTTP, or has no end, from a broken connection. net/http has no type for it; a
// Content-Length beyond 63 bits is such a case.
func malformed(err error) bool {
	if errors.Is(err, errLongAnswer) {
		return true
	}
	s := err.Error()
	return strings.Contains(s, "malformed") || strings.Contains(s, "bad Content-Length")
}

// suspectsConnections: the request timed out without an answer, so the other pooled connections may be dead too.
func suspectsConnections(ctx context.Context, err error) bool {
	if _, ok := stalled(ctx); ok {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout() && ctx.Err() == nil
}
