// Command chart writes the kustomize base from the chart, so that both are one source:
//
//	go -C tools/chart run .           # writes deploy/kustomize/base/edl.yaml
//	go -C tools/chart run . -check    # fails if it is not what the chart renders
//
// Or it prints what the chart renders with the values of a file, as "helm template" does:
//
//	go -C tools/chart run . -values FILE -namespace NAME
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

const (
	chartDir = "../../deploy/chart"
	baseDir  = "../../deploy/kustomize/base"
	baseFile = "edl.yaml"
)

// baseValues are those of the base beside the defaults: kustomize makes no certificates, so the Secret of etcd is one that is there.
func baseValues() map[string]any {
	return map[string]any{"etcd": map[string]any{"secret": "edl-etcd"}}
}

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if the base is not what the chart renders")
	values := flag.String("values", "", "print what the chart renders with the values of `FILE`, and write nothing")
	namespace := flag.String("namespace", "edl", "render for the namespace `NAME`, together with -values")
	flag.Parse()
	var err error
	if *values != "" {
		err = show(os.Stdout, *values, *namespace)
	} else {
		err = run(*check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	want, err := base()
	if err != nil {
		return err
	}
	path := filepath.Join(baseDir, baseFile)
	if !check {
		return os.WriteFile(path, want, 0o644)
	}
	have, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(have, want) {
		err = errors.New(path + " is not what the chart renders: run \"make chart\"")
	}
	return err
}

// show writes what the chart renders with the values of a file.
func show(w io.Writer, file, namespace string) error {
	values, err := chartutil.ReadValuesFile(file)
	if err != nil {
		return err
	}
	documents, err := render(values, namespace)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.Join(documents, "---\n"))
	return err
}

// base is the content of the base.
func base() ([]byte, error) {
	documents, err := render(baseValues(), "edl")
	if err != nil {
		return nil, err
	}
	return []byte("# Written by tools/chart from deploy/chart. Do not edit it: use an overlay.\n" + strings.Join(documents, "---\n")), nil
}

// render renders the chart as `helm template edl deploy/chart` does for a namespace, and returns its documents, in the order of their files.
func render(values map[string]any, namespace string) ([]string, error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "edl", Namespace: namespace, IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var names, documents []string
	for name := range rendered {
		if strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for d := range strings.SplitSeq("\n"+rendered[name], "\n---\n") {
			if d = strings.TrimSpace(d); d != "" {
				documents = append(documents, d+"\n")
			}
		}
	}
	return documents, nil
}
