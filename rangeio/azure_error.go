package rangeio

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// azureCodes are the error codes whose meaning does not follow from the HTTP status. Sources: Microsoft's lists of
// common and of Blob service error codes.
var azureCodes = map[string]Kind{
	"BlobNotFound":              NotFound,
	"ContainerNotFound":         NoBucket,
	"ContainerBeingDeleted":     NoBucket, // 409
	"ContainerDisabled":         NoBucket,
	"ResourceNotFound":          NoBucket, // what a listing says
	"AccountIsDisabled":         Forbidden,
	"AuthenticationFailed":      BadCredentials, // 403: a wrong key, or a SAS that has expired
	"InvalidAuthenticationInfo": BadCredentials,
	"BlobArchived":              Archived, // 409: in the archive tier
	"BlobBeingRehydrated":       Archived,
	"BlobImmutableDueToPolicy":  Forbidden,
	"PublicAccessNotPermitted":  Forbidden,
	"LeaseIdMissing":            Forbidden, // 412, but no condition of ours: another client has a lease on the blob
	"InvalidBlobType":           Forbidden, // 409: an append or page blob lies there
	"ConditionNotMet":           Changed,
	"InvalidRange":              BadRange,

	"Md5Mismatch":   BadAnswer,
	"Crc64Mismatch": BadAnswer,

	"ServerBusy":            Throttled,
	"OperationTimedOut":     Unavailable,
	"AccountBeingCreated":   Unavailable,
	"InvalidBlockList":      Unavailable, // another Put of the same key took the blocks away; a new one may succeed
	"InvalidBlobOrBlock":    Unavailable, // so did blocks with other names
	"RequestBodyIncomplete": Unavailable,

	"InvalidResourceName": BadKey,
	"InvalidUri":          BadKey,
}

// azureFailure classifies an error of the SDK: the caller's own end first, then the store's code, then the HTTP status,
// then the network.
func azureFailure(ctx context.Context, err error) (Kind, error) {
	if ctx.Err() != nil {
		return Canceled, ctx.Err()
	}
	if ce, ok := errors.AsType[credentialsError](err); ok {
		return azureCredentialsKind(ce), ce
	}
	if re, ok := errors.AsType[*azcore.ResponseError](err); ok {
		r := refusal{status: re.StatusCode, code: re.ErrorCode}
		if re.RawResponse != nil {
			r.message = "request " + re.RawResponse.Header.Get("X-Ms-Request-Id")
		}
		if kind, ok := azureCodes[r.code]; ok {
			return kind, r
		}
		if r.status == http.StatusNotFound && r.code == "" {
			return BadAnswer, r // some web page: this is not the store, and it says nothing about the object
		}
		return statusKind(r.status), r
	}
	err = withoutURL(err)
	if strings.HasPrefix(err.Error(), "unmarshalling type") || malformed(err) { // the SDK has no type for it
		return BadAnswer, err
	}
	return Unavailable, err
}

// azureCredentialsKind tells a token service that is down, which passes, from credentials that are not there.
func azureCredentialsKind(err credentialsError) Kind {
	if fe, ok := errors.AsType[*azidentity.AuthenticationFailedError](err.err); ok && fe.RawResponse != nil {
		if status := fe.RawResponse.StatusCode; status >= 500 || status == http.StatusTooManyRequests {
			return Unavailable
		}
	}
	return credentialsKind(err)
}
