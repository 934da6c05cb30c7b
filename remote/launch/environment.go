package launch

import (
	"slices"
	"strings"
)

// A role gets what it needs of the environment of the process that starts it, and nothing else: a listener may have secrets there that are no business of jobs.

// passedOn and passedPrefixes name the variables that roles get: those of EDL, of drivers of buckets (a command may import those of Google and Azure), of the system, and of the runtime of Go.
// GOTRACEBACK stays behind: with it a process that crashes could write its memory, and so its keys, to a file.
var (
	passedOn = []string{
		"HOME", "LANG", "LOGNAME", "PATH", "TEMP", "TMP", "TMPDIR", "TZ", "USER",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_DIR", "SSL_CERT_FILE",
		"GOOGLE_APPLICATION_CREDENTIALS",
		"GOCOVERDIR", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GORACE", "LD_LIBRARY_PATH",
		"COMSPEC", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "USERPROFILE", "WINDIR",
	}
	passedPrefixes = []string{"AWS_", "AZURE_", "EDL_", "LC_"}
	// keptBack are variables with such a prefix that say who the user of the listener is.
	keptBack = []string{"EDL_AUTHORITY", "EDL_CREDENTIALS", "EDL_TOKEN_FILE", "EDL_CA_FILE"}
)

// environment returns what a role gets of an environment, as "NAME=value".
func environment(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains(keptBack, name) {
			return true
		}
		return !slices.Contains(passedOn, name) && !slices.ContainsFunc(passedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}
