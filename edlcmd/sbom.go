package edlcmd

import (
	"net/url"
	"runtime/debug"
	"strings"
)

// A bom is a software bill of materials in the JSON of CycloneDX 1.6: the modules that this binary was built from, and the standard library of Go. Scanners compare it
// with lists of known vulnerabilities.
type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    bomMetadata `json:"metadata"`
	Components  []component `json:"components"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

// A component is a module. Its package URL names it as scanners do.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	URL     string `json:"purl"`
}

// bomOf lists what Go has recorded in a binary of a version.
func bomOf(info *debug.BuildInfo, version string) bom {
	std := strings.TrimPrefix(strings.Fields(info.GoVersion + " ")[0], "go") // an experiment follows the version
	b := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: bomMetadata{componentOf("application", info.Main.Path, version)},
		Components: []component{componentOf("library", "std", std)}}
	for _, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version != "" { // without a version it is a folder, which no scanner knows
			m = m.Replace
		}
		b.Components = append(b.Components, componentOf("library", m.Path, m.Version))
	}
	return b
}

func componentOf(sort, path, version string) component {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	at := "pkg:golang/" + strings.Join(parts, "/")
	if version != "" {
		at += "@" + url.QueryEscape(version)
	}
	return component{Type: sort, Ref: at, Name: path, Version: version, URL: at}
}
