package main

import (
	"fmt"

	"coldtap/internal/config"

	"github.com/spf13/cobra"
)

// configFlags are the flags of commands that read a configuration file.
type configFlags struct {
	path  string
	check bool
	print bool
}

// register gives a command --config.
func (f *configFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "config", "coldtap.yaml", "configuration `file`")
	cmd.MarkFlagFilename("config", "yaml", "yml")
}

// registerAll gives it --check and --print-config too.
func (f *configFlags) registerAll(cmd *cobra.Command) {
	f.register(cmd)
	cmd.Flags().BoolVar(&f.check, "check", false, "validate the configuration, list all problems, and exit")
	cmd.Flags().BoolVar(&f.print, "print-config", false, "print the configuration with every default filled in, and exit")
}

// load reads the configuration. done is true when --check or --print-config have said all there is to say.
func (f *configFlags) load(env *environment) (cfg config.Config, done bool, err error) {
	cfg, err = config.Load(f.path)
	if err != nil {
		return cfg, false, usageError{err}
	}
	if f.print {
		return cfg, true, cfg.Print(env.out)
	}
	if f.check {
		if err := checkFiles(cfg); err != nil {
			return cfg, false, usageError{err}
		}
		fmt.Fprintf(env.out, "%s is valid\n", f.path)
		return cfg, true, nil
	}
	return cfg, false, nil
}
