package edlcmd

import (
	"runtime/debug"
	"testing"
)

func TestVersionIsThatOfTheBuild(t *testing.T) {
	edl := &debug.Module{Path: module, Version: "v0.3.1"}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		want versionReport
	}{
		"a release": {debug.BuildInfo{Main: *edl}, versionReport{Version: "v0.3.1"}},
		"a checkout": {debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}, versionReport{Version: "devel", Revision: "abc"}},
		"another module": {debug.BuildInfo{Main: debug.Module{Path: "example.org/mine", Version: "v1.0.0"}, Deps: []*debug.Module{edl}},
			versionReport{Version: "v1.0.0", EDL: "v0.3.1"}},
		"another module beside a checkout": {debug.BuildInfo{Main: debug.Module{Path: "example.org/mine"},
			Deps: []*debug.Module{{Path: module, Version: "v0.0.0", Replace: &debug.Module{Path: "../.."}}}},
			versionReport{Version: "devel", EDL: "v0.0.0"}},
	} {
		got := versionReport{Version: "devel"}
		got.describe(&c.info)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	s := settings{version: "v9"}
	if got := s.currentVersion(); got.Version != "v9" || got.Ops == 0 || got.Fingerprint == "" {
		t.Errorf("%+v", got)
	}
}
