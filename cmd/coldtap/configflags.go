package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"coldtap/internal/config"

	"github.com/spf13/cobra"
)

// usualFiles are read where --config is not given, the first that is there.
var usualFiles = []string{"coldtap.yaml", "/etc/coldtap/coldtap.yaml"}

// configFlags are the flags of commands that need the configuration.
type configFlags struct {
	path  string
	check bool
	print bool
}

// register gives a command --config.
func (f *configFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "config", "", "configuration `file`; when not given, "+strings.Join(usualFiles, " or ")+" where there is one")
	cmd.MarkFlagFilename("config", "yaml", "yml")
}

// registerAll gives it --check and --print-config too.
func (f *configFlags) registerAll(cmd *cobra.Command) {
	f.register(cmd)
	cmd.Flags().BoolVar(&f.check, "check", false, "validate the configuration, list all problems, and exit")
	cmd.Flags().BoolVar(&f.print, "print-config", false, "print the configuration with every default filled in and secrets masked, and exit")
}

// loader reads the configuration from a file, if there is one, and the environment.
func (f *configFlags) loader() config.Loader {
	s := config.Loader{File: f.path, Environ: os.Environ()}
	for _, file := range usualFiles {
		if s.File != "" {
			break
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			s.File = file
		}
	}
	return s
}

// load reads the configuration. done is true when --check or --print-config have said all there is to say. checks are
// what the command needs besides a valid configuration.
func (f *configFlags) load(env *environment, checks ...func(config.Config) error) (cfg config.Config, done bool, err error) {
	loader := f.loader()
	if f.print {
		if cfg, err = loader.Read(); err != nil {
			return cfg, false, usageError{err}
		}
		if err := cfg.Print(env.out); err != nil || !f.check {
			return cfg, true, err
		}
	}
	if cfg, err = loader.Load(); err != nil {
		return cfg, false, usageError{err}
	}
	if !f.check {
		return cfg, false, nil
	}
	var problems []error
	for _, check := range append(checks, checkParts) {
		problems = append(problems, check(cfg))
	}
	if err := errors.Join(problems...); err != nil {
		return cfg, false, usageError{err}
	}
	if f.print {
		return cfg, true, nil
	}
	fmt.Fprintf(env.out, "valid: %s\n", loader)
	return cfg, true, nil
}
