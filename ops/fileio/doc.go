// Package fileio registers the ops that move variables to and from parameter files: save, load, save_combine and
// load_combine, in Fluid's formats.
//
// A file_path in a program is a name, not a path: the storage in the environment resolves it below the directory that the run was given and
// refuses one that leads out of it. Without storage none of the ops binds.
package fileio
