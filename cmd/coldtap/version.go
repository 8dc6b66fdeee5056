package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for releases.
var version = "dev"

func versionCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit and Go version",
		Example: "  coldtap version",
		Args:    operand(""),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(env.out, versionText())
			return err
		},
	}
}

func versionText() string {
	return fmt.Sprintf("coldtap %s\ncommit %s\n%s %s/%s\n", version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is the revision that the Go tool stamped into the binary.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " (modified)"
		}
	}
	return revision + modified
}
