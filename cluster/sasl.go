package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"coldtap/internal/readlimit"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// SASLOptions is SASL to the brokers as a configuration file has it. The zero value is no SASL.
type SASLOptions struct {
	Name         string `yaml:"mechanism"` // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER
	Username     string `yaml:"username"`
	Password     string `yaml:"password"`
	PasswordFile string `yaml:"password_file"` // instead of Password
	Token        string `yaml:"token"`         // for OAUTHBEARER
	TokenFile    string `yaml:"token_file"`    // instead of Token
}

// LogValue keeps the secrets out of logs.
func (o SASLOptions) LogValue() slog.Value { return slog.StringValue(o.String()) }

// String keeps the secrets out of what is printed.
func (o SASLOptions) String() string {
	if o == (SASLOptions{}) {
		return "none"
	}
	return o.Name + " as " + o.Username
}

const (
	secretSize = 64 << 10
	caFileSize = 4 << 20
)

// Mechanism gives what kgo needs, nil for no SASL. A password or token file is read at each authentication, not before,
// so that rotation needs no restart and a secret may be mounted late; one newline at its end is dropped. While the file
// cannot be read authentications fail (Unauthorized, the option's error inside). An error is an *Error of Kind Option
// that names the option.
func (o SASLOptions) Mechanism() (sasl.Mechanism, error) {
	if o == (SASLOptions{}) {
		return nil, nil
	}
	if err := o.valid(); err != nil {
		return nil, err
	}
	switch o.Name {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			p, err := o.secret()
			return plain.Auth{User: o.Username, Pass: p}, err
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(o.scram), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(o.scram), nil
	}
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		t, err := o.secret()
		return oauth.Auth{Token: t}, err
	}), nil
}

// Check says what is wrong with the options or with the file as it is now, as Mechanism and an authentication would.
func (o SASLOptions) Check() error {
	if o == (SASLOptions{}) {
		return nil
	}
	if err := o.valid(); err != nil {
		return err
	}
	_, err := o.secret()
	return err
}

// valid looks at the options, and not into files.
func (o SASLOptions) valid() error {
	switch o.Name {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		if o.Username == "" {
			return &Error{Kind: Option, Op: "username", Err: errors.New("is needed for " + o.Name)}
		}
		if o.Token != "" || o.TokenFile != "" {
			return &Error{Kind: Option, Op: "token", Err: errors.New("is for OAUTHBEARER, not for " + o.Name)}
		}
		return oneOf("password", o.Password, o.PasswordFile)
	case "OAUTHBEARER":
		if o.Username != "" || o.Password != "" || o.PasswordFile != "" {
			return &Error{Kind: Option, Op: "username", Err: errors.New("OAUTHBEARER takes a token only")}
		}
		return oneOf("token", o.Token, o.TokenFile)
	}
	return &Error{Kind: Option, Op: "mechanism",
		Err: fmt.Errorf("%q is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER", o.Name)}
}

func (o SASLOptions) secret() (string, error) {
	if o.Name == "OAUTHBEARER" {
		return secretOf("token", o.Token, o.TokenFile)
	}
	return secretOf("password", o.Password, o.PasswordFile)
}

func (o SASLOptions) scram(context.Context) (scram.Auth, error) {
	p, err := o.secret()
	return scram.Auth{User: o.Username, Pass: p}, err
}

// oneOf wants a secret or the name of the file that has it.
func oneOf(name, value, file string) error {
	switch {
	case value != "" && file != "":
		return &Error{Kind: Option, Op: name + "_file", Err: errors.New("only one of it and " + name + " may be set")}
	case value == "" && file == "":
		return &Error{Kind: Option, Op: name, Err: errors.New("it or " + name + "_file is needed")}
	}
	return nil
}

// secretOf gives the option of that name, or what is in the file that the option name_file names.
func secretOf(name, value, file string) (string, error) {
	if value != "" {
		return value, nil
	}
	raw, err := readSmall(file, secretSize)
	if err != nil {
		return "", &Error{Kind: Option, Op: name + "_file", Err: err}
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if secret == "" {
		return "", &Error{Kind: Option, Op: name + "_file", Err: errors.New(file + " is empty")}
	}
	return secret, nil
}

// readSmall reads a file that must not be larger than limit.
func readSmall(path string, limit int64) ([]byte, error) {
	raw, err := readlimit.File(path, limit)
	if errors.Is(err, readlimit.ErrTooLarge) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return raw, err
}
