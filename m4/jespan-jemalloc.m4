# SPDX-License-Identifier: BSD-2-Clause
# Finding jemalloc, and the way to bind it.
#
# Static binding: tools/private-jemalloc makes an object of our own from the static PIC archive, whether that was built
# with a symbol prefix or without. Shared binding, the last resort: the shared library beside us. Each is only taken if
# a program bound in that way runs.

m4_define([jespan_jemalloc_minimum], [5.3.0])

# JESPAN_JEMALLOC_PROGRAM(PREFIX)
# A program that succeeds if this jemalloc will do. It leaves two lines in conftest.jemalloc: version and what is wrong.
m4_define([JESPAN_JEMALLOC_PROGRAM], [AC_LANG_SOURCE([[
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int $1mallctl(const char *, void *, size_t *, void *, size_t);
void *$1mallocx(size_t, int);
void $1sdallocx(void *, size_t, int);

/* What the private copy calls in place of mmap(). */
void *jespan_je_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *jespan_je_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return mmap(address, bytes, protection, flags, fd, offset);
}

static const char *check_version(const char *version)
{
    int major, minor;
    if (sscanf(version, "%d.%d", &major, &minor) != 2)
        return "its version cannot be read";
    return major * 100 + minor < 503 ? "it is older than ]]jespan_jemalloc_minimum[[" : NULL;
}

static const char *check_statistics(void)
{
    bool statistics = false;
    size_t bytes = sizeof statistics;
    int error = $1mallctl("config.stats", &statistics, &bytes, NULL, 0);
    return error || !statistics ? "it was built with --disable-stats" : NULL;
}

static const char *check_allocation(void)
{
    char *p = $1mallocx(100, 0);
    if (!p)
        return "mallocx fails";
    memset(p, 1, 100);
    $1sdallocx(p, 100, 0);
    return NULL;
}

int main(void)
{
    const char *version = "unknown", *wrong = NULL;
    size_t bytes = sizeof version;
    if ($1mallctl("version", &version, &bytes, NULL, 0))
        wrong = "mallctl fails";
    if (!wrong)
        wrong = check_version(version);
    if (!wrong)
        wrong = check_statistics();
    if (!wrong)
        wrong = check_allocation();
    FILE *file = fopen("conftest.jemalloc", "w");
    if (!file)
        return 1;
    fprintf(file, "%.*s\n%s\n", (int)strcspn(version, "-"), version, wrong ? wrong : "");
    fclose(file);
    return wrong ? 1 : 0;
}
]])])

# JESPAN_TRY_JEMALLOC(PREFIX, LIBS, [HINT])
# Sets jemalloc_reason to "" if it works, and jemalloc_version.
AC_DEFUN([JESPAN_TRY_JEMALLOC], [
    rm -f conftest.jemalloc
    jespan_saved_LIBS=$LIBS
    LIBS="$2 $LIBS"
    jemalloc_reason="a program linked with it does not build or run$3 (see config.log)"
    AC_RUN_IFELSE([JESPAN_JEMALLOC_PROGRAM([$1])], [jemalloc_reason=],
        [AS_IF([test -f conftest.jemalloc],
            [jemalloc_reason="version `$SED -n 1p conftest.jemalloc`: `$SED -n 2p conftest.jemalloc`"])],
        [AC_LINK_IFELSE([JESPAN_JEMALLOC_PROGRAM([$1])], [jemalloc_reason=])])
    jemalloc_version=unknown
    AS_IF([test -f conftest.jemalloc], [jemalloc_version=`$SED -n 1p conftest.jemalloc`])
    rm -f conftest.jemalloc
    LIBS=$jespan_saved_LIBS
])

# JESPAN_FIND_JEMALLOC_ARCHIVE
# Sets JEMALLOC_ARCHIVE: in the prefix, else where pkg-config says, else where the compiler looks.
AC_DEFUN([JESPAN_FIND_JEMALLOC_ARCHIVE], [
    AS_IF([test -n "$jemalloc_home"], [jespan_dirs="$jemalloc_home/lib $jemalloc_home/lib64"],
        [jespan_dirs=`$PKG_CONFIG --variable=libdir jemalloc 2>/dev/null`])
    AS_IF([test -z "$jemalloc_home"],
        [JEMALLOC_ARCHIVE=`$CC $CFLAGS -print-file-name=libjemalloc_pic.a`], [JEMALLOC_ARCHIVE=])
    for jespan_dir in $jespan_dirs; do
        AS_IF([test -f "$jespan_dir/libjemalloc_pic.a"], [JEMALLOC_ARCHIVE=$jespan_dir/libjemalloc_pic.a; break])
    done
    AS_IF([test ! -f "$JEMALLOC_ARCHIVE"], [JEMALLOC_ARCHIVE=])
])

# JESPAN_TRY_STATIC_JEMALLOC
# Sets jemalloc_binding to static if that works, else static_reason. JEMALLOC_ARCHIVE and jemalloc_prefix: what was taken.
AC_DEFUN([JESPAN_TRY_STATIC_JEMALLOC], [
    AC_MSG_CHECKING([for jemalloc as a static PIC archive])
    JESPAN_FIND_JEMALLOC_ARCHIVE
    AS_IF([test -z "$JEMALLOC_ARCHIVE"], [jemalloc_reason="no libjemalloc_pic.a"],
        [LD="$LD" NM="$NM" OBJCOPY="$OBJCOPY" \
            "$srcdir/tools/private-jemalloc" "$JEMALLOC_ARCHIVE" conftest-jemalloc.$OBJEXT >&AS_MESSAGE_LOG_FD 2>&1],
        [JESPAN_TRY_JEMALLOC([jespan_je_], [conftest-jemalloc.$OBJEXT $jemalloc_needs])
         jemalloc_prefix=`NM="$NM" "$srcdir/tools/private-jemalloc" --prefix "$JEMALLOC_ARCHIVE"`],
        [jemalloc_reason="$JEMALLOC_ARCHIVE cannot be renamed (see config.log)"])
    rm -f conftest-jemalloc.$OBJEXT
    AS_IF([test -z "$jemalloc_reason"], [jemalloc_binding=static; AC_MSG_RESULT([$JEMALLOC_ARCHIVE])],
        [static_reason=$jemalloc_reason; AC_MSG_RESULT([no: $jemalloc_reason])])
])

# JESPAN_TRY_SHARED_JEMALLOC
# Sets jemalloc_binding to shared if that works, else shared_reason.
AC_DEFUN([JESPAN_TRY_SHARED_JEMALLOC], [
    AC_MSG_CHECKING([for jemalloc as a shared library])
    jemalloc_reason="no libjemalloc.so in $jemalloc_home"
    # One -Wl: libtool would take the words apart, and --as-needed drop a library that is only found by dlsym.
    jespan_search=
    for jespan_dir in $jemalloc_home/lib64 $jemalloc_home/lib; do
        AS_IF([test -n "$jemalloc_home" && test -f "$jespan_dir/libjemalloc.so"],
            [jespan_search=,-L$jespan_dir,-rpath,$jespan_dir])
    done
    JEMALLOC_LIBS="-Wl,--push-state,--no-as-needed$jespan_search,-ljemalloc,--pop-state"
    AS_IF([test -z "$jemalloc_home" || test -n "$jespan_search"],
        [JESPAN_TRY_JEMALLOC([], [$JEMALLOC_LIBS], [, has it a symbol prefix?])])
    AS_IF([test -z "$jemalloc_reason"], [jemalloc_binding=shared; AC_MSG_RESULT([yes])],
        [shared_reason=$jemalloc_reason; AC_MSG_RESULT([no: $jemalloc_reason])])
])

# JESPAN_CHECK_JEMALLOC_HEADER
# Sets jemalloc_reason to "" if the header is there and new enough.
AC_DEFUN([JESPAN_CHECK_JEMALLOC_HEADER], [
    AC_MSG_CHECKING([for jemalloc's header])
    jespan_saved_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $JEMALLOC_CFLAGS"
    jemalloc_reason="no jemalloc/jemalloc.h in ${jemalloc_home:-the default path}"
    AS_IF([test -z "$jemalloc_home" || test -f "$jemalloc_home/include/jemalloc/jemalloc.h"],
        [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <jemalloc/jemalloc.h>]])],
            [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
                #include <jemalloc/jemalloc.h>
                #if JEMALLOC_VERSION_MAJOR * 100 + JEMALLOC_VERSION_MINOR < 503
                #error too old
                #endif
                ]])],
                [jemalloc_reason=], [jemalloc_reason="jemalloc/jemalloc.h is older than jespan_jemalloc_minimum"])])])
    CPPFLAGS=$jespan_saved_CPPFLAGS
    AS_IF([test -z "$jemalloc_reason"], [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no: $jemalloc_reason])])
])

# JESPAN_BIND_JEMALLOC
# Tries the bindings in order. Sets jemalloc_binding, or leaves it empty with jemalloc_reason.
AC_DEFUN([JESPAN_BIND_JEMALLOC], [
    AS_IF([test "x$with_jemalloc_binding" != xshared], [JESPAN_TRY_STATIC_JEMALLOC])
    AS_IF([test -z "$jemalloc_binding" && test "x$with_jemalloc_binding" != xstatic], [JESPAN_TRY_SHARED_JEMALLOC])
    AS_IF([test -z "$jemalloc_binding"],
        [jemalloc_reason="${static_reason:+static binding: $static_reason}${static_reason:+${shared_reason:+; }}dnl
${shared_reason:+shared binding: $shared_reason}"])
])

# JESPAN_WITH_JEMALLOC
# Sets jemalloc_binding, JEMALLOC_ARCHIVE (static), JEMALLOC_CFLAGS, JEMALLOC_LIBS and jemalloc_summary, or notes why not.
AC_DEFUN([JESPAN_WITH_JEMALLOC], [
    AC_ARG_WITH([jemalloc],
        [AS_HELP_STRING([--with-jemalloc=PREFIX],
            [jemalloc >= jespan_jemalloc_minimum installed in PREFIX (default: the system's)])],
        [], [with_jemalloc=yes])
    AC_ARG_WITH([jemalloc-binding],
        [AS_HELP_STRING([--with-jemalloc-binding=HOW],
            [auto, static (a private copy from its PIC archive) or shared (its shared library) (default: auto)])],
        [], [with_jemalloc_binding=auto])
    AS_CASE([$with_jemalloc_binding], [auto|static|shared], [],
        [AC_MSG_ERROR([--with-jemalloc-binding is auto, static or shared, not "$with_jemalloc_binding"])])
    AS_CASE([$with_jemalloc],
        [yes], [jemalloc_home=],
        [no], [AC_MSG_ERROR([jespan is built on jemalloc; --without-jemalloc is not possible])],
        [/*], [jemalloc_home=$with_jemalloc],
        [AC_MSG_ERROR([--with-jemalloc needs an absolute path, not "$with_jemalloc"])])
    JEMALLOC_CFLAGS=${jemalloc_home:+-I$jemalloc_home/include}
    # What jemalloc itself calls; glibc before 2.34 has it in libraries of its own.
    jemalloc_needs="-lm -lpthread -ldl"
    jemalloc_binding=

    JESPAN_CHECK_JEMALLOC_HEADER
    AS_IF([test -z "$jemalloc_reason"], [JESPAN_BIND_JEMALLOC])
    AS_IF([test -z "$jemalloc_binding"],
        [JESPAN_MISSING([jemalloc >= jespan_jemalloc_minimum], [$jemalloc_reason], [libjemalloc-dev])])
    AS_CASE([$jemalloc_binding],
        [static], [
            JEMALLOC_LIBS=$jemalloc_needs
            jemalloc_summary="$jemalloc_version, private copy of $JEMALLOC_ARCHIVE"
            jemalloc_summary="$jemalloc_summary${jemalloc_prefix:+ (prefix $jemalloc_prefix)}"
            AC_DEFINE([JESPAN_BINDING_STATIC], [1], [Define to 1 if jemalloc is a private copy, named jespan_je_*.])
            AC_DEFINE_UNQUOTED([JESPAN_JEMALLOC_PREFIX], ["$jemalloc_prefix"],
                [The prefix the private jemalloc was built with; its environment variable has it too, in capitals.])],
        [shared], [
            jemalloc_summary="$jemalloc_version, shared library through mallocx"
            jemalloc_summary="$jemalloc_summary (slower, no libjespan.a; ${static_reason:-as asked for})"
            AC_DEFINE([JESPAN_BINDING_SHARED], [1], [Define to 1 if jemalloc is a shared library beside us.])
            AC_DEFINE([JESPAN_JEMALLOC_SONAME], ["libjemalloc.so.2"], [The name of that library.])])
    AC_SUBST([with_jemalloc])
    AC_SUBST([with_jemalloc_binding])
    AC_SUBST([JEMALLOC_ARCHIVE])
    AC_SUBST([JEMALLOC_CFLAGS])
    AC_SUBST([JEMALLOC_LIBS])
])
