// Package credentialtest gives the tests of a package an authority of their own, so that they leave that of the user alone.
package credentialtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edl-go/edl/remote/credential"
)

// Setup makes this process and its children use an authority in a temporary folder. TestMain calls it, and calls cleanup when the tests have ended.
func Setup() (cleanup func()) {
	dir, err := os.MkdirTemp("", "edl-authority-")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("EDL_AUTHORITY", filepath.Join(dir, "authority.pem")); err != nil {
		panic(err)
	}
	return func() { _ = os.RemoveAll(dir) }
}

// Issue returns credentials of the authority of Setup that are valid for so long.
func Issue(t testing.TB, name credential.Name, life time.Duration) *credential.Credentials {
	t.Helper()
	file, err := credential.File()
	if err != nil {
		t.Fatal(err)
	}
	a, err := credential.OpenOrMake(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Issue(name, life)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Listener returns the credentials of a listener.
func Listener(t testing.TB) *credential.Credentials {
	t.Helper()
	return Issue(t, credential.Name{Kind: credential.Listener}, time.Hour)
}
