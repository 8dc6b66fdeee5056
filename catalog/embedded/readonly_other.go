//go:build !unix

package embedded

func isReadOnly(string) bool { return false }
