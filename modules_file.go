// Module file: files, directories and what is in them.
//
// The law of this room: a path may begin with ~; what is changed is changed in
// place or beside and renamed, never half; errors are those of Salt where Salt
// has words for them, else OSError as Python has it. The functions that states
// use (checkPerms, getManaged, manageFile, diffFiles …) are Go functions with
// the same meaning as the names in the table.
package main

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
)

func fileModule() Module {
	return Module{
		Doc: "Files and directories: contents, owners, modes, links, copies, backups.",
		Funcs: Funcs{
			"access":                     {run: fileAccess, doc: "Say whether a path can be read (r), written (w), executed (x) or is there (f)."},
			"append":                     {run: fileAppend, doc: "Append lines to a file, which must exist.\n\nCLI Example:\n\n    salt '*' file.append /etc/motd 'first line' 'second line'"},
			"apply_template_on_contents": {run: fileApplyTemplate, doc: "Render a text by a template engine."},
			"basename":                   {run: fileBasename, doc: "Return the last part of a path."},
			"blockreplace":               {run: fileBlockreplace, doc: blockreplaceDoc},
			"chattr":                     {run: fileChattr, doc: "Add or remove attributes of files: operator=add or remove, attributes=..."},
			"check_file_meta":            {run: fileCheckFileMeta, doc: "Return what would change if a file were managed with these values."},
			"check_hash":                 {run: fileCheckHash, doc: "Say whether a file has a hash: type:hash, type=hash or a hash alone."},
			"check_managed":              {run: fileCheckManaged, doc: "Say whether a managed file is in the wanted state."},
			"check_managed_changes":      {run: fileCheckManagedChanges, doc: "Return what would change of a managed file."},
			"check_perms":                {run: fileCheckPerms, doc: "Bring a file to an owner, a group, a mode and attributes; return what was changed."},
			"chgrp":                      {run: fileChgrp, doc: "Change the group of a file."},
			"chown":                      {run: fileChown, doc: "Change owner and group of a file; None, or what is wrong."},
			"comment":                    {run: fileComment, doc: "Put char in front of the lines that match; return the difference, False if none matches."},
			"comment_line":               {run: commentLine, doc: "Comment (cmnt=True) or uncomment the lines that match."},
			"contains":                   {run: fileContains, doc: "Say whether a file contains a text."},
			"contains_glob":              {run: fileContainsGlob, doc: "Say whether the contents of a file match a glob."},
			"contains_regex":             {run: fileContainsRegex, doc: "Say whether a line of a file matches a regular expression."},
			"copy":                       {run: fileCopy, doc: "Copy a file, or with recurse a directory."},
			"delete_backup":              {run: fileDeleteBackup, doc: "Remove a backup by its number in file.list_backups."},
			"directory_exists":           {run: fileDirectoryExists, doc: "Say whether a path is a directory."},
			"dirname":                    {run: fileDirname, doc: "Return a path without its last part."},
			"diskusage":                  {run: fileDiskusage, doc: "Return the bytes of a file, or of all files below a directory."},
			"extract_hash":               {run: fileExtractHash, doc: "Find a hash in a file of hashes."},
			"file_exists":                {run: fileFileExists, doc: "Say whether a path is a file."},
			"find":                       {run: fileFind, doc: "Find paths by name, iname, regex, iregex, type, owner, group, size, mtime, grep, mindepth and\nmaxdepth, and print, delete or exec for each.\n\nCLI Example:\n\n    salt '*' file.find / type=f name='*.bak' size=+10m"},
			"get_devmm":                  {run: fileGetDevmm, doc: "Return major and minor number of a device node."},
			"get_diff":                   {run: fileGetDiff, doc: "Return the difference of two files, here or on the file server."},
			"get_gid":                    {run: statField("gid"), pyname: "get_gid", doc: "Return the gid of a file's group."},
			"get_group":                  {run: statField("group"), pyname: "get_group", doc: "Return the group of a file."},
			"get_hash":                   {run: fileGetHash, doc: "Return the hash of a file."},
			"get_managed":                {run: fileGetManaged, doc: "Bring the source of a managed file to this box, rendered if it is a template."},
			"get_mode":                   {run: statField("mode"), pyname: "get_mode", doc: "Return the mode of a file."},
			"get_selinux_context":        {run: fileGetSelinuxContext, doc: "Return the SELinux context of a file."},
			"get_source_sum":             {run: fileGetSourceSum, doc: "Read a source_hash: a hash, type=hash, or a file of hashes."},
			"get_sum":                    {run: fileGetSum, doc: "Return the hash of a file, or a text if there is none."},
			"get_uid":                    {run: statField("uid"), pyname: "get_uid", doc: "Return the uid of a file's owner."},
			"get_user":                   {run: statField("user"), pyname: "get_user", doc: "Return the owner of a file."},
			"gid_to_group":               {run: fileGidToGroup, doc: "Return the name of a group by its gid."},
			"grep":                       {run: fileGrep, doc: "Run grep on a file; further words are options.\n\nCLI Example:\n\n    salt '*' file.grep /etc/passwd nobody"},
			"group_to_gid":               {run: fileGroupToGid, doc: "Return the gid of a group."},
			"is_blkdev":                  {run: hasMode(syscall.S_IFBLK), pyname: "is_blkdev", doc: "Say whether a path is a block device."},
			"is_chrdev":                  {run: hasMode(syscall.S_IFCHR), pyname: "is_chrdev", doc: "Say whether a path is a character device."},
			"is_fifo":                    {run: hasMode(syscall.S_IFIFO), pyname: "is_fifo", doc: "Say whether a path is a named pipe."},
			"is_hardlink":                {run: fileIsHardlink, doc: "Say whether a file has more than one name."},
			"is_link":                    {run: fileIsLink, doc: "Say whether a path is a symbolic link."},
			"join":                       {run: fileJoin, doc: "Join the parts of a path."},
			"lchown":                     {run: fileLchown, doc: "Change owner and group of a link itself."},
			"line":                       {run: fileLine, doc: lineDoc},
			"link":                       {run: fileLink, doc: "Make another name for a file."},
			"list_backup":                {run: fileListBackups, pyname: "list_backups", doc: "List the backups of a file, newest first."},
			"list_backups":               {run: fileListBackups, doc: "List the backups of a file, newest first."},
			"list_backups_dir":           {run: fileListBackupsDir, doc: "List the backups of all files of a directory."},
			"lsattr":                     {run: fileLsattr, doc: "Return the attributes of files."},
			"lstat":                      {run: fileLstat, doc: "Return what lstat(2) says of a path; nothing if it is not there."},
			"makedirs":                   {run: fileMakedirs, pyname: "makedirs_", doc: "Make the directories above a path."},
			"makedirs_perms":             {run: fileMakedirsPerms, doc: "Make a directory and those above it, with owner and mode."},
			"manage_file":                {run: fileManageFile, doc: "Bring a file to the contents of a source or a text, with owner and mode; what file.managed does."},
			"mkdir":                      {run: fileMkdir, doc: "Make a directory and those above it, unless it is there."},
			"mknod":                      {run: fileMknod, doc: "Make a device node (c, b) or a named pipe (p)."},
			"mknod_blkdev":               {run: fileMknodBlkdev, doc: "Make a block device node."},
			"mknod_chrdev":               {run: fileMknodChrdev, doc: "Make a character device node."},
			"mknod_fifo":                 {run: fileMknodFifo, doc: "Make a named pipe."},
			"move":                       {run: fileMove, doc: "Move a file or a directory."},
			"normpath":                   {run: fileNormpath, doc: "Return a path without . and .. and doubled slashes."},
			"open_files":                 {run: fileOpenFiles, doc: "Return open files with the pids that have them open, or with by_pid the other way round."},
			"pardir":                     {run: filePardir, doc: "Return the name of the parent directory: two dots."},
			"patch":                      {run: filePatch, doc: "Apply a patch to a file or a directory with the program patch."},
			"path_exists_glob":           {run: filePathExistsGlob, doc: "Say whether a glob matches a path."},
			"prepend":                    {run: filePrepend, doc: "Put lines in front of a file."},
			"psed":                       {run: filePsed, doc: "Replace a regular expression in a file, keeping a backup; file.replace does it better."},
			"read":                       {run: fileRead, doc: "Return the contents of a file."},
			"readdir":                    {run: fileReaddir, doc: "List the entries of a directory."},
			"readlink":                   {run: fileReadlink, doc: "Return where a symbolic link leads."},
			"remove":                     {run: fileRemove, doc: "Remove a file, or a directory with everything below it."},
			"remove_backup":              {run: fileDeleteBackup, pyname: "delete_backup", doc: "Remove a backup by its number in file.list_backups."},
			"rename":                     {run: fileRename, doc: "Rename a file or a directory."},
			"replace":                    {run: fileReplace, doc: replaceDoc},
			"restore_backup":             {run: fileRestoreBackup, doc: "Bring a backup back, by its number in file.list_backups."},
			"restorecon":                 {run: fileRestorecon, doc: "Reset the SELinux context of a path."},
			"rmdir":                      {run: fileRmdir, doc: "Remove a directory that is empty, or with recurse all empty ones below it."},
			"search":                     {run: fileSearch, doc: "Say whether a regular expression occurs in a file."},
			"sed":                        {run: fileSed, doc: "Replace by sed(1)."},
			"sed_contains":               {run: fileSedContains, doc: "Say whether sed(1) finds a text in a file."},
			"seek_read":                  {run: fileSeekRead, doc: "Return size bytes of a file from offset on."},
			"seek_write":                 {run: fileSeekWrite, doc: "Write data to a file at offset."},
			"set_mode":                   {run: fileSetMode, doc: "Set the mode of a file and return it."},
			"set_selinux_context":        {run: fileSetSelinuxContext, doc: "Set the SELinux context of a file."},
			"source_list":                {run: fileSourceList, doc: "Pick the first source of a list that exists, with its hash."},
			"stats":                      {run: fileStats, doc: "Return owner, mode, size, times and kind of a file."},
			"statvfs":                    {run: fileStatvfs, doc: "Return sizes of the file system that a path lies on."},
			"symlink":                    {run: fileSymlink, doc: "Make a symbolic link; force replaces what is there, atomic does so in one step."},
			"touch":                      {run: fileTouch, doc: "Make an empty file, or set the times of one that exists."},
			"truncate":                   {run: fileTruncate, doc: "Cut a file to a length."},
			"uid_to_user":                {run: fileUidToUser, doc: "Return the name of a user by its uid."},
			"uncomment":                  {run: fileUncomment, doc: "Take char away from the lines that match; return the difference, False if none matches."},
			"user_to_uid":                {run: fileUserToUid, doc: "Return the uid of a user."},
			"write":                      {run: fileWrite, doc: "Write lines to a file, in place of what is in it."},
		},
	}
}

const replaceDoc = `Replace a regular expression in a file and return the difference.

path, pattern, repl  the file, the expression, and what to put there (\1 is a group)
count                at most so many times; 0 is all
flags                MULTILINE and others, as names or a number
append_if_not_found, prepend_if_not_found, not_found_content
                     what to do if nothing matches
backup               suffix of the copy that is kept; False keeps none
dry_run, search_only, show_changes, ignore_if_missing, preserve_inode,
backslash_literal, encoding

CLI Example:

    salt '*' file.replace /etc/example pattern='=' repl=':'`

const blockreplaceDoc = `Replace what stands between two marker lines of a file and return the difference.

append_if_not_found, prepend_if_not_found, insert_before_match and
insert_after_match say where the block goes if there is none;
append_newline puts a line end after content.

CLI Example:

    salt '*' file.blockreplace /etc/hosts '#-- start --' '#-- end --' '10.0.0.1 foo' append_if_not_found=True`

const lineDoc = `See to one line of a file and return the difference.

mode ensure puts content where before and after say, unless it is there;
insert puts it there or at location start or end; replace and delete act on
the line that match (or content) finds. indent keeps the indent of the
neighbour.

CLI Example:

    salt '*' file.line /etc/nsswitch.conf "networks: files dns" after="hosts:.*?" mode=ensure`

func fileBasename(_ context.Context, _ *Call, a pathArgs) (any, error) {
	return a.Path[strings.LastIndexByte(a.Path, '/')+1:], nil
}

func fileDirname(_ context.Context, _ *Call, a pathArgs) (any, error) {
	head := a.Path[:strings.LastIndexByte(a.Path, '/')+1]
	if trimmed := strings.TrimRight(head, "/"); trimmed != "" {
		return trimmed, nil
	}
	return head, nil
}

func fileNormpath(_ context.Context, _ *Call, a pathArgs) (any, error) {
	path := filepath.Clean(a.Path)
	if strings.HasPrefix(a.Path, "//") && !strings.HasPrefix(a.Path, "///") {
		path = "/" + path // POSIX leaves the meaning of two slashes to the system, and Python keeps them
	}
	return path, nil
}

func filePardir(context.Context, *Call, noArgs) (any, error) { return "..", nil }

type joinArgs struct {
	Args []any `arg:"*args"`
}

func fileJoin(_ context.Context, _ *Call, a joinArgs) (any, error) {
	if len(a.Args) == 0 {
		return nil, TypeErrorf("join() missing 1 required positional argument: 'a'")
	}
	out := ""
	for i, part := range a.Args {
		text, ok := part.(string)
		if !ok {
			return nil, TypeErrorf("expected str, bytes or os.PathLike object, not %s", TypeName(part))
		}
		switch {
		case i == 0 || strings.HasPrefix(text, "/"):
			out = text
		case out == "" || strings.HasSuffix(out, "/"):
			out += text
		default:
			out += "/" + text
		}
	}
	return out, nil
}
