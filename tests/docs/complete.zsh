# SPDX-License-Identifier: BSD-3-Clause
# complete.zsh - zsh complete.zsh COMPLETION LINE...: prints each line as zsh completes it at the tab key.
#
# A zsh on a terminal of its own reads the lines; a key writes its edited line to a file.
zmodload zsh/zpty
zmodload zsh/zselect

dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
mkdir $dir/functions
cp $1 $dir/functions/_coll
shift
cat >$dir/.zshrc <<END
fpath=($dir/functions \$fpath)
autoload -U compinit
compinit -u -D
zstyle ':completion:*' insert-tab false
bindkey -e
bindkey '^I' complete-word
write-line() { print -r -- "\$BUFFER" >$dir/new && mv $dir/new $dir/line; BUFFER=; }
zle -N write-line
bindkey '^Xw' write-line
END

zpty -b shell "ZDOTDIR=$dir TERM=dumb zsh -d -i"
for line; do
    zpty -w -n shell "$line"$'\t\C-Xw'
    until [[ -e $dir/line ]]; do
        ((SECONDS < 120)) || { print "zsh does not answer to: $line"; exit 1 }
        zpty -r -t shell output || zselect -t 5
    done
    cat $dir/line
    rm $dir/line
done
zpty -d shell
