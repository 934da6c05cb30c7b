package program

// programExtra is what a file held that the IR does not interpret.
type programExtra struct {
	unknown    []byte // unknown fields of ProgramDesc
	opVersions []byte // op_version_map, still encoded
}
