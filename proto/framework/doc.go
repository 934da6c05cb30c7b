// Package framework is the program format: the messages of a program file, with
// PaddlePaddle Fluid's field numbers, as Go types.
//
// A [ProgramDesc] holds blocks; a [BlockDesc] holds variables ([VarDesc]) and
// the ops that run over them in order ([OpDesc]); an op names the variables in
// each of its slots and carries attributes ([OpDesc_Attr]). [VarType] says what a
// variable holds.
//
// The comments of framework.proto are the contract: which fields are always
// present, and which generations of Fluid files the messages read. Package
// program builds, checks, reads and writes programs; these types only carry
// them.
package framework
