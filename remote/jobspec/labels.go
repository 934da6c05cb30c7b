package jobspec

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
)

// maxLabels bounds the labels of a job.
const maxLabels = 32

var (
	labelKey   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9._/@:+-]{0,63}$`)
)

// wrongLabels is why a job cannot have labels; nil: it can. Their letters are those that a terminal shows as they are.
func wrongLabels(labels map[string]string) *fault.Fault {
	if len(labels) > maxLabels {
		return fault.E(fault.InvalidArgument, fault.At("job"), fault.Gotf("%d labels", len(labels)), fault.Wantf("at most %d", maxLabels))
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case !labelKey.MatchString(key):
			return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("the label "+fault.Quote(key)), fault.Want("up to 63 lower-case letters, digits and ._/-"))
		case !labelValue.MatchString(labels[key]):
			return fault.E(fault.InvalidArgument, fault.At("job"), fault.Got("the label "+key+" with the value "+fault.Quote(labels[key])),
				fault.Want("up to 63 letters, digits and ._/@:+-"))
		}
	}
	return nil
}

// ParseLabels reads labels that are written as KEY=VALUE.
func ParseLabels(values []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, text := range values {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := labels[key]; !ok || twice {
			return nil, fault.E(fault.InvalidArgument, fault.Got(fault.Quote(text)), fault.Want("KEY=VALUE, each key once"))
		}
		labels[key] = value
	}
	if wrong := wrongLabels(labels); wrong != nil {
		return nil, wrong
	}
	return labels, nil
}
